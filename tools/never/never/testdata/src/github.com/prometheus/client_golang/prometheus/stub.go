package prometheus

type Registerer interface{ MustRegister(...any) }

var DefaultRegisterer Registerer

func MustRegister(...any) {}
