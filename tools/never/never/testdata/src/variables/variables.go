package variables

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
)

// ErrSentinel does not change.
var ErrSentinel = errors.New("x")

var (
	counter int
	table   = map[string]int{}
	list    []int
	object  struct{ field int }
	pointer = &struct{ field int }{}
	value   state
	once    sync.Once                             // want `variable: package variable once holds a sync.Once`
	busy    atomic.Bool                           // want `variable: package variable busy holds a atomic.Bool`
	queue               = make(chan int)          // want `variable: package variable queue holds a channel`
	locked              = &struct{ sync.Mutex }{} // want `variable: package variable locked holds a sync.Mutex`
	lazy                = sync.OnceValue(func() int { return 1 })
	_       sync.Locker = &sync.Mutex{}
)

type state struct{ n int }

func (s *state) change()  { s.n++ }
func (s state) read() int { return s.n }

func Change() {
	counter = 1                // want `variable: package variable counter is assigned to`
	counter += 1               // want `variable: package variable counter is assigned to`
	counter++                  // want `variable: package variable counter is assigned to`
	table["a"] = 1             // want `variable: package variable table is assigned to`
	delete(table, "a")         // want `variable: package variable table is changed by delete`
	clear(table)               // want `variable: package variable table is changed by clear`
	list = append(list, 1)     // want `variable: package variable list is assigned to`
	list[0]++                  // want `variable: package variable list is assigned to`
	object.field = 1           // want `variable: package variable object is assigned to`
	pointer.field = 1          // want `variable: package variable pointer is assigned to`
	(*pointer).field = 1       // want `variable: package variable pointer is assigned to`
	value.change()             // want `variable: package variable value is changed by its method change`
	once.Do(func() {})         // want `variable: package variable once is changed by its method Do`
	queue <- 1                 // want `variable: package variable queue is sent to`
	close(queue)               // want `variable: package variable queue is changed by close`
	take(&counter)             // want `variable: package variable counter is handed out by its address`
	for counter = range list { // want `variable: package variable counter is assigned to`
	}
	ErrSentinel = nil              // want `variable: package variable ErrSentinel is assigned to`
	http.DefaultTransport = nil    // want `variable: package variable net/http.DefaultTransport is assigned to`
	http.DefaultClient.Timeout = 1 // want `variable: package variable net/http.DefaultClient is assigned to`
	func() { counter = 2 }()       // want `variable: package variable counter is assigned to`
}

func take(*int) {}

func Fine(s state) int {
	counter := 1
	counter++
	local := map[string]int{}
	local["a"] = table["b"]
	s.change()
	return value.read() + lazy() + counter + len(list)
}
