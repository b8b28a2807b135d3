package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	root = "../.."
	// commandLimit is generous: the machine may be busy, and a command may build programs.
	commandLimit = 5 * time.Minute
)

// TestPages_CommandsSucceed runs the commands of each page in one shell after another, which hand
// on their exported variables. Pages that need a playground share one.
func TestPages_CommandsSucceed(t *testing.T) {
	alone, inPlayground := blocksToRun(t)
	if len(alone) == 0 || len(inPlayground) == 0 {
		t.Errorf("%d pages with commands, and %d that need a playground: want both",
			len(alone), len(inPlayground))
	}
	for page, blocks := range alone {
		t.Run(page, func(t *testing.T) { newShell(t).runBlocks(page, blocks) })
	}
	t.Run("in a playground", func(t *testing.T) {
		startPlayground(t)
		for page, blocks := range inPlayground {
			t.Run(page, func(t *testing.T) {
				s := newShell(t)
				s.enter()
				s.runBlocks(page, blocks)
			})
		}
	})
}

// blocksToRun are the blocks of all pages, by page.
func blocksToRun(t *testing.T) (alone, inPlayground map[string][]block) {
	t.Helper()
	alone, inPlayground = map[string][]block{}, map[string][]block{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := parse(string(text))
		if err != nil {
			t.Errorf("%s:%v", page, err)
		}
		blocks = slices.DeleteFunc(blocks, func(b block) bool { return b.skipped != "" })
		switch {
		case len(blocks) == 0:
		case slices.ContainsFunc(blocks, func(b block) bool { return b.inPlayground }):
			inPlayground[page] = blocks
		default:
			alone[page] = blocks
		}
	}
	return alone, inPlayground
}

func (s *shell) runBlocks(page string, blocks []block) {
	t := s.t
	for _, b := range blocks {
		for _, c := range b.commands {
			where := fmt.Sprintf("%s:%d", page, c.line)
			t.Logf("%s: $ %s", where, c.text)
			if b.until != "" {
				s.background(where, c, b.until)
				continue
			}
			printed, err := s.run(c)
			if err != nil {
				t.Fatalf("%s: %v\n%s", where, err, printed)
			}
			if line := c.missing(printed); line != "" {
				t.Fatalf("%s: the output lacks %q:\n%s", where, line, printed)
			}
		}
	}
}

// pages are all pages with commands, by their paths from the root.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"),
		func(path string, entry fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".md" {
				path, err = filepath.Rel(root, path)
				all = append(all, path)
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// shell runs commands in the project's folder.
type shell struct {
	t   *testing.T
	dir string
	// state has the exported variables between two commands.
	state string
	env   []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(dir, "bin", "commands")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", tools+"/", "./kubectl",
		"helm.sh/helm/v4/cmd/helm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kubectl and helm: %v\n%s", err, out)
	}
	home := t.TempDir()
	s := &shell{t: t, dir: dir, state: filepath.Join(home, "state")}
	s.env = append(os.Environ(), "HOME="+home, "GOCACHE="+goEnv(t, "GOCACHE"),
		"GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOPATH="+goEnv(t, "GOPATH"),
		"PATH="+tools+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if err := os.WriteFile(s.state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// goEnv is a setting of Go that depends on the home folder, which the commands do not see.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// startPlayground runs what the tutorial has after its fourth step.
func startPlayground(t *testing.T) {
	t.Helper()
	s := newShell(t)
	s.background("playground", command{text: "make playground"}, "Ready.")
	s.enter()
	s.mustRun("kubectl apply -f docs/tutorial")
	s.background("playground", command{text: "fxccm --kubeconfig=$CCM_KUBECONFIG " +
		"--cloud-provider=openstack --cloud-config=cloud.conf --cluster-cidr=10.200.0.0/16"},
		"Term is ready")
	s.mustRun(
		"kubectl wait --for=jsonpath='{.status.loadBalancer.ingress}' --timeout=5m service/web")
}

// enter goes to a folder of its own, with admin.conf, cloud.conf, and the folders of the project.
func (s *shell) enter() {
	s.t.Helper()
	dir := s.t.TempDir()
	s.mustRun("source bin/playground/env && ln -s $PWD/deploy $PWD/docs " + dir +
		" && cp bin/playground/cloud.conf " + dir +
		" && cp bin/playground/admin.kubeconfig " + dir + "/admin.conf")
	s.dir = dir
}

func (s *shell) mustRun(text string) {
	s.t.Helper()
	if printed, err := s.run(command{text: text}); err != nil {
		s.t.Fatalf("%s: %v\n%s", text, err, printed)
	}
}

func (s *shell) command(ctx context.Context, c command) *exec.Cmd {
	script := fmt.Sprintf("source %q\n%s\ncode=$?\nexport -p > %q\nexit $code\n", s.state, c.text,
		s.state)
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = s.dir, s.env
	// Its children end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

func (s *shell) run(c command) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), commandLimit)
	defer cancel()
	printed, err := s.command(ctx, c).CombinedOutput()
	return string(printed), err
}

// background starts a command, waits for the text, and interrupts it at the end of the test.
func (s *shell) background(where string, c command, until string) {
	s.t.Helper()
	printed := &output{found: make(chan struct{}), until: until}
	cmd := s.command(context.WithoutCancel(s.t.Context()), c)
	cmd.Stdout, cmd.Stderr = printed, printed
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("%s: %v", where, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.t.Cleanup(func() {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Errorf("%s: %v", where, err)
		}
		select {
		case <-ended:
		case <-time.After(commandLimit):
			s.t.Errorf("%s: does not end after an interrupt", where)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	select {
	case <-printed.found:
	case err := <-ended:
		ended <- err
		s.t.Fatalf("%s: ended before it printed %q: %v\n%s", where, until, err, printed)
	case <-time.After(commandLimit):
		s.t.Fatalf("%s: did not print %q:\n%s", where, until, printed)
	}
}

// output collects what a command prints, and closes found when it has a text.
type output struct {
	until string
	found chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	once sync.Once
}

var _ io.Writer = &output{}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.text.Write(p)
	if strings.Contains(o.text.String(), o.until) {
		o.once.Do(func() { close(o.found) })
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func TestParse_MistakesOnAPage_AreErrors(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"no mark":        {"text\n\n```console\n$ ls\n```\n", "3: say above the block"},
		"no block":       {"<!-- run -->\n\ntext\n", "2: no block of commands follows"},
		"no command":     {"<!-- run -->\n```console\n```\n", "2: the block has no command"},
		"output first":   {"<!-- run -->\n```console\nls\n```\n", "3: a block begins with a command"},
		"no end":         {"<!-- run -->\n```console\n$ ls\n", "2: the block has no end"},
		"no reason":      {"<!-- not run: -->\n```console\n$ ls\n```\n", "2: say above the block"},
		"another shell":  {"<!-- run -->\n```sh\nls\n```\n", "2: a block of commands begins with"},
		"no such phrase": {"<!-- ran -->\n```console\n$ ls\n```\n", "2: say above the block"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(c.page); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestShell_RunsWhatThePageShows(t *testing.T) {
	page := "<!-- run -->\n```console\n$ export A=1 B=$PWD\n$ echo a \\\n  $A; echo; echo c  d\na …\nc d\n$ false\n```\n"
	blocks, err := parse(page)
	if err != nil || len(blocks) != 1 || len(blocks[0].commands) != 3 {
		t.Fatalf("got %+v, %v", blocks, err)
	}
	s := newShell(t)
	for i, c := range blocks[0].commands {
		printed, err := s.run(c)
		if failed := i == 2; failed != (err != nil) {
			t.Errorf("%s: %v", c.text, err)
		}
		if line := c.missing(printed); line != "" {
			t.Errorf("%s: the output lacks %q: %s", c.text, line, printed)
		}
	}
	other := command{text: "echo a 1", output: []string{"a 2"}}
	if printed, _ := s.run(other); other.missing(printed) != "a 2" {
		t.Error("a line that is not printed was not missed")
	}
}
