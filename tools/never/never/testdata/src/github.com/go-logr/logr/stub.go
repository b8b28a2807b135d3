package logr

type Logger struct{}

func (l Logger) V(int) Logger { return l }

func (l Logger) WithValues(...any) Logger { return l }

func (l Logger) Info(string, ...any) {}

func (l Logger) Error(error, string, ...any) {}
