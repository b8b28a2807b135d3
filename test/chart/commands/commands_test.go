// Package commands runs the commands of the documentation.
package commands

import (
	"bytes"
	"cmp"
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

	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/commandblocks"
)

const (
	root = "../../.."
	// commandLimit is generous: the machine may be busy, and a command may build programs.
	commandLimit = 15 * time.Minute
)

// TestPages_CommandsSucceed runs the commands of each page in one shell after another. Each passes
// its exported variables to the next. Pages that need a playground share one.
func TestPages_CommandsSucceed(t *testing.T) {
	inPlayground, others := map[string][]commandblocks.Block{}, map[string][]commandblocks.Block{}
	found := map[string]int{}
	for page, blocks := range blocksOfPages(t) {
		blocks = slices.DeleteFunc(blocks,
			func(b commandblocks.Block) bool { return b.RunBy != "" || b.DryRun != "" })
		pages := others
		for _, b := range blocks {
			found[b.Place]++
			if b.Place == commandblocks.Playground {
				pages = inPlayground
			}
		}
		pages[page] = blocks
	}
	for _, place := range []string{
		"", commandblocks.Playground, commandblocks.NewCluster, commandblocks.Migrated,
	} {
		if found[place] == 0 {
			t.Errorf("no page has commands that run %s", cmp.Or(place, "anywhere"))
		}
	}
	for page, blocks := range others {
		t.Run(page, func(t *testing.T) { runPage(t, page, blocks, newShell(t)) })
	}
	t.Run(commandblocks.Playground, func(t *testing.T) {
		startPlayground(t)
		for page, blocks := range inPlayground {
			t.Run(page, func(t *testing.T) {
				s := newShell(t)
				s.enter()
				runPage(t, page, blocks, s)
			})
		}
	})
}

// runPage runs the blocks of a page in the shell. Blocks that need a new cluster run in a shell
// with its own. Blocks in a migrated cluster share one.
func runPage(t *testing.T, page string, blocks []commandblocks.Block, first *shell) {
	t.Helper()
	s := first
	var migrated *shell
	for _, b := range blocks {
		switch b.Place {
		case commandblocks.Migrated:
			if migrated == nil {
				migrated = newShell(t)
				migrated.enterMigratedCluster()
			}
			s = migrated
		case commandblocks.NewCluster:
			s = newShell(t)
			s.enterNewCluster()
		case commandblocks.Playground:
			s = first
		}
		s.runBlock(page, b)
	}
}

// TestPages_BlocksOfOtherTests_AreTakenByThem looks for the call that takes each block.
func TestPages_BlocksOfOtherTests_AreTakenByThem(t *testing.T) {
	for page, blocks := range blocksOfPages(t) {
		for _, b := range blocks {
			if b.RunBy != "" && b.RunBy != commandblocks.CI && !takes(t, b.RunBy, page) {
				t.Errorf("%s: no test in %s takes its commands", page, b.RunBy)
			}
		}
	}
}

// takes reports whether the tests in the folder call commandblocks.RunBy and name the page.
func takes(t *testing.T, folder, page string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(folder, page)
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	return strings.Contains(code.String(), fmt.Sprintf("commandblocks.RunBy(%q", folder)) &&
		strings.Contains(code.String(), fmt.Sprintf("%q", path))
}

// TestPages_BlocksOfMake_AreRunByCI compares the programs that make would run for a page with those
// that it would run in CI, where they may have more arguments.
func TestPages_BlocksOfMake_AreRunByCI(t *testing.T) {
	inCI := dryRunOfCI(t)
	compared := map[bool]int{}
	for page, blocks := range blocksOfPages(t) {
		for _, b := range blocks {
			isDry := b.DryRun != ""
			if b.RunBy != commandblocks.CI && !isDry {
				continue
			}
			for _, c := range b.Commands {
				compared[isDry]++
				lines, err := recipes(t, c.Text)
				if err == nil && !isDry {
					err = notIn(inCI, lines)
				}
				if err != nil {
					t.Errorf("%s:%d: %s: %v", page, c.Line, c.Text, err)
				}
			}
		}
	}
	if compared[true] == 0 || compared[false] == 0 {
		t.Errorf("%v commands were compared, want some that CI runs, and dry runs", compared)
	}
}

// TestMakeDemo_EndsOrFails_PrintsHowLongEachPartTook replaces the control plane, the compiler and
// the demo by programs that do nothing.
func TestMakeDemo_EndsOrFails_PrintsHowLongEachPartTook(t *testing.T) {
	for code, wantErr := range map[string]bool{"0": false, "3": true} {
		bin := t.TempDir()
		for name, text := range map[string]string{
			"fxccm-demo": "exit " + code, "kube-apiserver": "", "etcd": "",
		} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"),
				0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "make", "demo", "BIN="+bin, "GO=true",
			"KUBEBUILDER_ASSETS="+bin)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if (err != nil) != wantErr || !strings.Contains(string(out), "make demo: control plane ") {
			t.Errorf("the demo exits with %s: make ends with %v and prints:\n%s", code, err, out)
		}
	}
}

func TestMakeDemo_OfAFleet_BuildsNoHost(t *testing.T) {
	for command, want := range map[string]bool{"make demo": true, "make demo FLEET=1": false} {
		lines, err := recipes(t, command)
		has := strings.Contains(strings.Join(lines, "\n"), "example/embedded")
		if err != nil || has != want {
			t.Errorf("%s builds the host that embeds: %t, %v, want %t", command, has, err, want)
		}
	}
}

// TestWorkflows_MakeTargets_Exist dry-runs make for each step of the workflows, which run
// elsewhere.
func TestWorkflows_MakeTargets_Exist(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			Jobs map[string]struct{ Steps []struct{ Run string } }
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatal(err)
		}
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				for command := range strings.Lines(step.Run) {
					if !strings.HasPrefix(command, "make ") {
						continue
					}
					command, _, _ = strings.Cut(command, " | ")
					tried[file]++
					if _, err := recipes(t, strings.ReplaceAll(command, `"`, "")); err != nil {
						t.Errorf("%s: %s: %v", file, command, err)
					}
				}
			}
		}
		if tried[file] == 0 {
			t.Errorf("%s runs no make", file)
		}
	}
	if len(tried) == 0 {
		t.Error("there are no workflows")
	}
}

// recipes are the lines that make would run for the command. A variable that does not change them
// is an error.
func recipes(t *testing.T, command string) ([]string, error) {
	t.Helper()
	command, _, _ = strings.Cut(command, "#")
	words := strings.Fields(strings.TrimPrefix(command, "sudo "))
	switch words[0] {
	case "make":
	case "export": // the recipes use the variable
		return dryRun(t, "bash", "-c", "echo "+strings.Join(words[1:], " "))
	default:
		return nil, errors.New("want make or export")
	}
	lines, err := dryRun(t, words...)
	if err != nil {
		return nil, err
	}
	for i, word := range words {
		if !strings.Contains(word, "=") {
			continue
		}
		without, err := dryRun(t, slices.Delete(slices.Clone(words), i, i+1)...)
		if err != nil {
			return nil, err
		}
		if slices.Equal(lines, without) {
			return nil, fmt.Errorf("%s has no effect", word)
		}
	}
	return lines, nil
}

// notIn reports a line that CI does not run.
func notIn(inCI, lines []string) error {
	for _, line := range lines {
		if !slices.ContainsFunc(inCI, func(of string) bool { return hasWordsOf(of, line) }) {
			return fmt.Errorf("CI does not run: %s", line)
		}
	}
	return nil
}

// hasWordsOf reports whether the line has all words of the other line in their order.
func hasWordsOf(line, other string) bool {
	want := strings.Fields(other)
	for _, word := range strings.Fields(line) {
		if len(want) > 0 && word == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// dryRun are the lines that make prints for the command instead of running them.
func dryRun(t *testing.T, command ...string) ([]string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "MAKEFLAGS=n --no-print-directory", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// dryRunOfCI are the lines that make prints for the commands of .ci/parts, which .ci/run runs.
func dryRunOfCI(t *testing.T) (all []string) {
	t.Helper()
	parts, err := os.ReadFile(filepath.Join(root, ".ci", "parts"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(parts)) {
		_, command, found := strings.Cut(line, "make ")
		if strings.HasPrefix(line, "#") || !found {
			continue
		}
		lines, err := dryRun(t, append([]string{"make"}, strings.Fields(command)...)...)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, lines...)
	}
	return all
}

// TestCI_EachPart_EndsInTime: a run of CI may take 90 minutes.
func TestCI_EachPart_EndsInTime(t *testing.T) {
	t.Parallel()
	const limit = 85 // minutes, which leaves some for the rest
	parts, err := os.ReadFile(filepath.Join(root, ".ci", "parts"))
	if err != nil {
		t.Fatal(err)
	}
	end, count := 0, 0
	for line := range strings.Lines(string(parts)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var minutes, latest int
		if _, err := fmt.Sscan(line, &name, &minutes, &latest); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		// It begins when the parts before it have ended, or not at all.
		end = max(end, min(end, latest)+minutes)
		count++
	}
	if count == 0 || end > limit {
		t.Errorf("%d parts can take %d minutes, want at most %d", count, end, limit)
	}
}

// blocksOfPages are the blocks of all pages, by page.
func blocksOfPages(t *testing.T) map[string][]commandblocks.Block {
	t.Helper()
	all := map[string][]commandblocks.Block{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := commandblocks.Parse(string(text))
		if err != nil {
			t.Errorf("%s:%v", page, err)
		}
		all[page] = blocks
	}
	return all
}

func (s *shell) runBlock(page string, b commandblocks.Block) {
	t := s.t
	for _, c := range b.Commands {
		where := fmt.Sprintf("%s:%d", page, c.Line)
		t.Logf("%s: $ %s", where, c.Text)
		if b.Until != "" {
			s.background(where, c.Text, b.Until)
			continue
		}
		printed, err := s.run(c.Text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", where, err, printed)
		}
		if line := c.Missing(printed); line != "" {
			t.Fatalf("%s: the output lacks %q:\n%s", where, line, printed)
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
	t         *testing.T
	home, dir string
	// state is a file with the exported variables between two commands.
	state string
	env   []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	s := &shell{t: t, home: home, dir: dir, state: filepath.Join(home, "state")}
	s.env = append(slices.Concat(os.Environ(), settings), "HOME="+home)
	if err := os.WriteFile(s.state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// environment builds kubectl and helm, and returns the settings with which the commands find them.
// The other settings are Go's that depend on the home folder, which the commands do not see.
var environment = sync.OnceValues(func() (settings []string, err error) {
	tools, err := filepath.Abs(filepath.Join(root, "bin", "commands"))
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command("go", "build", "-o", tools+"/", "./kubectl",
		"helm.sh/helm/v4/cmd/helm").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kubectl and helm: %w\n%s", err, out)
	}
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, err
	}
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		settings = append(settings, names[i]+"="+value)
	}
	return append(settings,
		"PATH="+tools+string(filepath.ListSeparator)+os.Getenv("PATH")), nil
})

// startPlayground has the state of the tutorial after its fourth step.
func startPlayground(t *testing.T) {
	t.Helper()
	s := newShell(t)
	s.background("playground", "make playground", "Ready.")
	s.enter()
	s.mustRun("kubectl apply -f docs/tutorial/nodes.yaml")
	s.background("playground", "fxccm --kubeconfig=$CCM_KUBECONFIG "+
		"--cloud-provider=openstack --cloud-config=cloud.conf --cluster-cidr=10.200.0.0/16",
		"Term is ready")
	const wait = "kubectl wait --timeout=5m --for=jsonpath="
	s.mustRun(wait + "'{.spec.providerID}' nodes --all")
	s.mustRun(wait + "'{.status.addresses}' nodes --all")
	// A load balancer gets a node when its route exists.
	s.mustRun("kubectl wait --timeout=5m --for=condition=NetworkUnavailable=false nodes --all")
	s.mustRun("kubectl apply -f docs/tutorial/web.yaml")
	s.mustRun(wait + "'{.status.loadBalancer.ingress}' service/web")
}

// enter changes to a new folder with admin.conf, cloud.conf, and the folders of the project.
func (s *shell) enter() {
	s.t.Helper()
	dir := s.t.TempDir()
	s.mustRun("source bin/playground/env && ln -s $PWD/deploy $PWD/docs " + dir +
		" && cp bin/playground/cloud.conf " + dir +
		" && cp bin/playground/admin.kubeconfig " + dir + "/admin.conf")
	s.dir = dir
}

// enterNewCluster starts a control plane, and changes to a folder with cloud.conf and the project's
// deploy. kubectl finds the kubeconfig at its default path.
func (s *shell) enterNewCluster() {
	s.t.Helper()
	kubeconfig := filepath.Join(s.home, ".kube", "config")
	if err := os.Mkdir(filepath.Dir(kubeconfig), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := controlplane.WriteKubeconfig(kubeconfig,
		controlplane.ForTest(s.t).RESTConfig()); err != nil {
		s.t.Fatal(err)
	}
	dir := s.t.TempDir()
	s.mustRun("ln -s $PWD/deploy " + dir + " && echo '[Global]' > " + dir + "/cloud.conf")
	s.dir = dir
}

// enterMigratedCluster is a new cluster in which fxccm migrate has replaced a Helm release of OCCM.
// No Pod runs.
func (s *shell) enterMigratedCluster() {
	s.t.Helper()
	project := s.dir
	s.enterNewCluster()
	s.mustRun("export PATH=" + project + "/bin:$PATH && make -C " + project + " example")
	testdata := project + "/test/chart/commands/testdata/"
	for _, command := range []string{
		"helm install openstack-ccm " + testdata + "occm --namespace kube-system",
		"kubectl apply -f " + testdata + "leader.yaml",
		"kubectl -n kube-system patch pod fxccm-1 --subresource=status --patch " +
			`'{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}'`,
		"fxccm migrate apply --yes --image=registry.example.com/fxccm:v0.1.0",
		"kubectl -n kube-system delete pod fxccm-1 --grace-period=0 --force",
	} {
		s.mustRun(command)
	}
}

func (s *shell) mustRun(text string) {
	s.t.Helper()
	if printed, err := s.run(text); err != nil {
		s.t.Fatalf("%s: %v\n%s", text, err, printed)
	}
}

func (s *shell) command(ctx context.Context, text string) *exec.Cmd {
	script := fmt.Sprintf("source %q\n%s\ncode=$?\nexport -p > %q\nexit $code\n", s.state, text,
		s.state)
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = s.dir, s.env
	// The signal must reach the command's children, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

func (s *shell) run(text string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), commandLimit)
	defer cancel()
	printed, err := s.command(ctx, text).CombinedOutput()
	return string(printed), err
}

// background starts a command, waits for the text, and interrupts it at the end of the test.
func (s *shell) background(where, text, until string) {
	s.t.Helper()
	printed := &output{found: make(chan struct{}), until: until}
	cmd := s.command(context.WithoutCancel(s.t.Context()), text)
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

// output collects the output of a command, and closes found when it contains a text.
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
