package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const github = "../../.github/"

// pinned is an action by its commit, with the version as a comment.
var pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestWorkflows_Actions_ArePinnedByCommit(t *testing.T) {
	for _, file := range workflows(t) {
		for line := range strings.Lines(string(read(t, file))) {
			_, action, ok := strings.Cut(strings.TrimSpace(line), "uses: ")
			if ok && !strings.HasPrefix(action, "./") && !pinned.MatchString(action) {
				t.Errorf("%s: %s is not pinned by commit, with a version as a comment", file, action)
			}
		}
	}
}

func workflows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(github + "workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	return files
}

type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]job    `json:"jobs"`
}

type job struct {
	Needs       any               `json:"needs"`
	Permissions map[string]string `json:"permissions"`
	Steps       []struct {
		Uses string         `json:"uses"`
		Run  string         `json:"run"`
		With map[string]any `json:"with"`
	} `json:"steps"`
}

// permissions are those of the jobs that do not only read the repository.
var permissions = map[string]map[string]string{
	// Signatures and attestations need the identity.
	"release.yaml push": {
		"contents": "read", "packages": "write", "id-token": "write", "attestations": "write",
	},
	"release.yaml publish": {
		"contents": "write", "id-token": "write", "attestations": "write",
	},
	"pages.yaml deploy": {"pages": "write", "id-token": "write"},
}

func TestWorkflows_Permissions_AreTheLeast(t *testing.T) {
	for _, file := range workflows(t) {
		var w workflow
		parse(t, file, &w)
		if !strings.Contains(string(read(t, file)), "\npermissions: {}\n") {
			t.Errorf("%s grants permissions to all jobs, want each job to name its own", file)
		}
		for name, job := range w.Jobs {
			want := permissions[filepath.Base(file)+" "+name]
			if want == nil {
				want = map[string]string{"contents": "read"}
			}
			if got := job.Permissions; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: job %s has the permissions %v, want %v", file, name, got, want)
			}
			for _, step := range job.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") &&
					step.With["persist-credentials"] != false {
					t.Errorf("%s: job %s leaves credentials in the checkout", file, name)
				}
				// The shell would run what a tag or a title contains.
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: job %s runs %q, want values as variables", file, name, step.Run)
				}
			}
		}
	}
}

func TestWorkflows_Release_PushesSignsAndAttestsWhatCIPassed(t *testing.T) {
	const file = github + "workflows/release.yaml"
	var w workflow
	parse(t, file, &w)
	for name, want := range map[string]string{
		"build": "ci", "push": "build", "publish": "[build push]",
	} {
		if got := fmt.Sprint(w.Jobs[name].Needs); got != want {
			t.Errorf("job %s needs %s, want %s", name, got, want)
		}
	}
	text := string(read(t, file))
	for _, want := range []string{
		`tags: ["v[0-9]+.[0-9]+.[0-9]+"]`, "uses: ./.github/workflows/ci.yaml",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the release workflow lacks %q", want)
		}
	}
	for name, want := range map[string][]string{
		"push": {
			"map[push-to-registry:true subject-digest:${{ steps.push.outputs.image-digest }} " +
				"subject-name:${{ steps.push.outputs.image }}]",
			"map[push-to-registry:true subject-digest:${{ steps.push.outputs.chart-digest }} " +
				"subject-name:${{ steps.push.outputs.chart }}]",
		},
		"publish": {"map[subject-path:release/*]"},
	} {
		var attested []string
		for _, step := range w.Jobs[name].Steps {
			if strings.HasPrefix(step.Uses, "actions/attest-build-provenance@") {
				attested = append(attested, fmt.Sprint(step.With))
			}
		}
		if !slices.Equal(attested, want) {
			t.Errorf("job %s attests %q, want %q", name, attested, want)
		}
	}
	// The outputs have the names that the program writes.
	var pushes []string
	for _, step := range w.Jobs["push"].Steps {
		if strings.HasPrefix(step.Run, "make ") {
			pushes = append(pushes, step.Run)
		}
	}
	want := `make publish VERSION="$VERSION" IMAGE="$IMAGE" SIGN=keyless OUTPUTS="$GITHUB_OUTPUT"`
	if !slices.Equal(pushes, []string{want}) {
		t.Errorf("the push is %q, want %q", pushes, want)
	}
}

func TestMakefile_Publish_HasTheFlagsOfTheProgram(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"release VERSION=v1.2.3 IMAGE=r.example/fxccm": "all -image r.example/fxccm v1.2.3",
		"release VERSION=v1.2.3 IMAGE=r.example/fxccm PUSH=1": "publish -image r.example/fxccm " +
			"v1.2.3",
		"publish VERSION=v1.2.3 IMAGE=r.example/fxccm CHARTS=oci://r.example/c SIGN=keyless " +
			"OUTPUTS=/tmp/o": "publish -image r.example/fxccm -charts oci://r.example/c " +
			"-sign keyless -outputs /tmp/o v1.2.3",
	} {
		recipe, err := command(t.Context(), "../..", []string{"MAKEFLAGS="}, "make",
			append([]string{"--dry-run", "--no-print-directory"}, strings.Fields(args)...)...)
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(strings.Split(recipe, "\n"), func(line string) bool {
			_, after, _ := strings.Cut(line, "&& "+root+"/bin/release-tool ")
			return strings.Join(strings.Fields(after), " ") == want
		})
		if !found {
			t.Errorf("make %s does not run %q:\n%s", args, want, recipe)
		}
	}
}

// A module without the line is built by whatever toolchain is installed.
func TestModules_Toolchain_IsTheSameInEach(t *testing.T) {
	line := regexp.MustCompile(`(?m)^toolchain (go\d+\.\d+\.\d+)$`)
	found, err := git(t.Context(), "../..", "ls-files", "--", "go.mod", "*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string][]string{}
	for _, file := range strings.Fields(found) {
		module, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		version := "none"
		if match := line.FindSubmatch(module); match != nil {
			version = string(match[1])
		}
		versions[version] = append(versions[version], file)
	}
	if len(versions) != 1 || len(versions["none"]) > 0 {
		t.Errorf("the modules have these toolchains, want the same in each: %v", versions)
	}
}

func TestDependabot_Updates_AreOfAllModulesAndActions(t *testing.T) {
	var config struct {
		Version int `json:"version"`
		Updates []struct {
			Ecosystem   string         `json:"package-ecosystem"`
			Directory   string         `json:"directory"`
			Directories []string       `json:"directories"`
			Schedule    map[string]any `json:"schedule"`
			Groups      map[string]any `json:"groups"`
		} `json:"updates"`
	}
	parse(t, github+"dependabot.yml", &config)
	have := map[string][]string{}
	for _, each := range config.Updates {
		if each.Schedule["interval"] == nil {
			t.Errorf("%s has no interval", each.Ecosystem)
		}
		dirs := each.Directories
		if each.Directory != "" {
			dirs = append(dirs, each.Directory)
		}
		have[each.Ecosystem] = append(have[each.Ecosystem], dirs...)
	}
	want := map[string][]string{"github-actions": {"/"}}
	for ecosystem, file := range map[string]string{"gomod": "go.mod", "npm": "package.json"} {
		found, err := git(t.Context(), "../..", "ls-files", "--cached", "--others",
			"--exclude-standard", "--", file, "*/"+file)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range strings.Fields(found) {
			want[ecosystem] = append(want[ecosystem], path.Join("/", path.Dir(each)))
		}
	}
	for _, all := range []map[string][]string{have, want} {
		for _, dirs := range all {
			slices.Sort(dirs)
		}
	}
	if config.Version != 2 || fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("dependabot.yml has version %d and\n%v\nwant\n%v", config.Version, have, want)
	}
}

func TestIssueForms_HaveWhatTheFormsNeed(t *testing.T) {
	files, err := filepath.Glob(github + "ISSUE_TEMPLATE/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("forms %q, %v; want three", files, err)
	}
	for _, file := range files {
		var form issueForm
		parse(t, file, &form)
		if err := form.check(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	var bug issueForm
	parse(t, github+"ISSUE_TEMPLATE/bug.yaml", &bug)
	for id, required := range map[string]bool{
		"happened": true, "version": true, "cloud": true, "status": false,
	} {
		if i := bug.field(id); i < 0 || bug.Body[i].Validations.Required != required {
			t.Errorf("the form of a bug has no field %s, or not required: %t", id, required)
		}
	}
	var chooser struct {
		Blank    *bool `json:"blank_issues_enabled"`
		Contacts []struct {
			Name  string `json:"name"`
			URL   string `json:"url"`
			About string `json:"about"`
		} `json:"contact_links"`
	}
	parse(t, github+"ISSUE_TEMPLATE/config.yml", &chooser)
	if chooser.Blank == nil || *chooser.Blank {
		t.Error("an issue without a form is possible")
	}
	for _, each := range chooser.Contacts {
		if each.Name == "" || each.About == "" || !strings.HasPrefix(each.URL, repository+"/") {
			t.Errorf("contact %+v is incomplete", each)
		}
		page, ok := strings.CutPrefix(each.URL, repository+"/blob/main/")
		if _, err := os.Stat(filepath.Join("../..", page)); ok && err != nil {
			t.Error(err)
		}
	}
}

// issueForm is a form of an issue,
// https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-issue-forms
type issueForm struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Labels      []string `json:"labels"`
	Body        []struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Attributes struct {
			Label       string `json:"label"`
			Description string `json:"description"`
			Placeholder string `json:"placeholder"`
			Value       string `json:"value"`
			Render      string `json:"render"`
			Options     []any  `json:"options"`
		} `json:"attributes"`
		Validations struct {
			Required bool `json:"required"`
		} `json:"validations"`
	} `json:"body"`
}

func (f issueForm) field(id string) int {
	for i, each := range f.Body {
		if each.ID == id {
			return i
		}
	}
	return -1
}

func (f issueForm) check() error {
	if f.Name == "" || f.Description == "" || len(f.Body) == 0 {
		return fmt.Errorf("the form lacks its name, description or body")
	}
	inputs := 0
	for i, each := range f.Body {
		switch each.Type {
		case "markdown":
			if each.Attributes.Value == "" {
				return fmt.Errorf("the text %d is empty", i)
			}
			continue
		case "dropdown", "checkboxes":
			if len(each.Attributes.Options) == 0 {
				return fmt.Errorf("field %s has no options", each.ID)
			}
		case "input", "textarea":
		default:
			return fmt.Errorf("field %s has the unknown type %q", each.ID, each.Type)
		}
		inputs++
		if each.ID == "" || each.Attributes.Label == "" || f.field(each.ID) != i {
			return fmt.Errorf("field %d, %q, needs an ID of its own and a label", i, each.ID)
		}
	}
	if inputs == 0 {
		return fmt.Errorf("the form has no field")
	}
	return nil
}

func TestCodeowners_OfAllFiles_AreATeam(t *testing.T) {
	if text := string(read(t, github+"CODEOWNERS")); text != "* @fxccm/maintainers\n" {
		t.Errorf("owners: %q", text)
	}
}

// parse reads a file with known keys only, unless it is a workflow.
func parse(t *testing.T, file string, into any) {
	t.Helper()
	unmarshal := yaml.UnmarshalStrict
	if strings.Contains(file, "workflows/") {
		unmarshal = yaml.Unmarshal
	}
	if err := unmarshal(read(t, file), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
