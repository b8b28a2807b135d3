package scheme

type Type struct{}

func (*Type) AddKnownTypes(...any) {}
func (*Type) Recognizes(any) bool  { return false }

var Scheme = &Type{}

func AddToScheme(*Type) error { return nil }
