package kubernetes

func NewForConfigOrDie(c any) any { return c }
