package suite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
)

// Quietly runs tests while klog writes to a file, because upstream's controllers log thousands of
// lines. The end of the file is shown if the code is not 0.
func Quietly(run func() (code int)) (code int) {
	dir, err := os.MkdirTemp("", "fxccm-suite-")
	if err != nil {
		return Failed(err)
	}
	defer os.RemoveAll(dir)
	log, err := divertKlog(filepath.Join(dir, "klog"))
	if err != nil {
		return Failed(err)
	}
	defer log.close()
	if code = run(); code != 0 {
		log.showEnd()
	}
	return code
}

// logEnd is the size of the shown end of the log, in bytes.
const logEnd = 16 << 10

// klogFile is the file that klog writes to.
type klogFile struct{ file *os.File }

// divertKlog redirects klog, which is global for the process, to a file.
func divertKlog(path string) (klogFile, error) {
	file, err := os.Create(path)
	if err != nil {
		return klogFile{}, err
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false", "stderrthreshold": "FATAL",
		"one_output": "true",
	} {
		if err := flags.Set(name, value); err != nil {
			return klogFile{}, fmt.Errorf("send klog to a file: %w", err)
		}
	}
	klog.SetOutput(file)
	return klogFile{file}, nil
}

func (l klogFile) showEnd() {
	klog.Flush()
	content, err := os.ReadFile(l.file.Name())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintf(os.Stderr, "the end of klog's output:\n%s\n", content[max(0, len(content)-logEnd):])
}

func (l klogFile) close() {
	klog.Flush()
	_ = l.file.Close()
}
