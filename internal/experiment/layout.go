package experiment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tailscope/api"
)

// LayOut writes an experiment of the log book into a directory, with the files it
// names, and returns the path of its file. Files that were too large to be kept have
// to be there already, unchanged. A file that is there and differs is not
// overwritten.
func LayOut(t *api.Experiment, dir string) (string, error) {
	if strings.TrimSpace(t.File) == "" {
		return "", errors.New("the log book does not have its file")
	}
	file, n := "experiment.yaml", 2
	for ; t.Files[file] != ""; n++ {
		file = fmt.Sprintf("experiment-%d.yaml", n)
	}
	files := map[string]string{file: t.File}
	var names []string
	for name, text := range t.Files {
		if !filepath.IsLocal(name) {
			return "", fmt.Errorf("the file %q lies outside the experiment's directory", name)
		}
		files[name] = text
	}
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var wrong []error
	for _, name := range names {
		path, text := filepath.Join(dir, name), files[name]
		there, err := os.ReadFile(path)
		sum, large := strings.CutPrefix(text, tooLarge)
		switch {
		case err != nil && large:
			wrong = append(wrong, fmt.Errorf("%s was too large to be kept: put it there", path))
		case err == nil && (large && digest(there) != sum || !large && string(there) != text):
			wrong = append(wrong, fmt.Errorf("%s is there and differs", path))
		}
	}
	if len(wrong) > 0 {
		return "", errors.Join(wrong...)
	}
	for _, name := range names {
		path, text := filepath.Join(dir, name), files[name]
		if strings.HasPrefix(text, tooLarge) {
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, file), nil
}
