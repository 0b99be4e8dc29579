package requests

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tailscope/internal/strictyaml"
)

// files reads each file once, and bounds their sum.
type files struct {
	dir  string
	left int64
	read map[string][]byte
}

var gzipMagic = []byte{0x1f, 0x8b}

// path returns the place of a file.
func (f *files) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(f.dir, name)
}

// open opens a file, unpacking gzip.
func (f *files) open(name string) (io.ReadCloser, *Problem) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, f.problem(name, err)
	}
	var head [2]byte
	n, err := file.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		file.Close()
		return nil, f.problem(name, err)
	}
	if !bytes.Equal(head[:n], gzipMagic) {
		return file, nil
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		file.Close()
		return nil, f.problem(name, err)
	}
	return &unpacked{z, file}, nil
}

type unpacked struct {
	*gzip.Reader
	file *os.File
}

func (u *unpacked) Close() error { return errors.Join(u.Reader.Close(), u.file.Close()) }

// text returns the content of a file.
func (f *files) text(name string) ([]byte, *Problem) {
	path := f.path(name)
	if text, ok := f.read[path]; ok {
		return text, nil
	}
	file, p := f.open(name)
	if p != nil {
		return nil, p
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, f.left+1))
	if err != nil {
		return nil, f.problem(name, err)
	}
	if int64(len(text)) > f.left {
		return nil, tooMuch(name)
	}
	f.left -= int64(len(text))
	if f.read == nil {
		f.read = map[string][]byte{}
	}
	f.read[path] = text
	return text, nil
}

func tooMuch(name string) *Problem {
	return &Problem{File: name, Text: "with it there is more than may be kept in memory", Hint: "use a part of it"}
}

// problem says why a file cannot be read, and which one may be meant.
func (f *files) problem(name string, err error) *Problem {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	p := &Problem{File: name, Text: err.Error()}
	if errors.Is(err, fs.ErrNotExist) {
		where := filepath.Dir(f.path(name))
		p.Text, p.Hint = "there is no such file", "names of files are relative to the working directory"
		if f.dir != "" {
			p.Hint = "names of files are relative to " + filepath.Clean(f.dir)
		}
		var near []string
		entries, _ := os.ReadDir(where) // without it there is no better hint
		for _, e := range entries {
			if !e.IsDir() {
				near = append(near, e.Name())
			}
		}
		if nearest, ok := strictyaml.Nearest(filepath.Base(name), near); ok {
			p.Hint = "did you mean " + filepath.Join(filepath.Dir(name), nearest) + "?"
		}
	}
	return p
}
