package webpage

// A Level is how much attention a state needs. Worse levels are smaller.
type Level int

// The levels.
const (
	Bad Level = iota
	Warn
	Good
	Idle
)

// String is the CSS class of the level.
func (l Level) String() string { return []string{"bad", "warn", "good", "idle"}[l] }

// shape distinguishes levels without colors.
func (l Level) shape() string { return []string{"✖", "▲", "●", "○"}[l] }

// A Mark is a state as a page shows it.
type Mark struct {
	Level Level
	Word  string
}

// Mark returns the mark of a state at this level.
func (l Level) Mark(word string) Mark { return Mark{l, word} }

// Part shows the mark.
func (m Mark) Part() Part {
	return El("span", Class("word "+m.Level.String()),
		El("span", Attr("aria-hidden", "true"), Text(m.Level.shape())), Text(" "+m.Word))
}
