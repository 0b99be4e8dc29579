// Command image writes an OCI archive of static Linux programs: a tar of an image layout
// that podman load, skopeo copy oci-archive:FILE and docker load read. It needs neither a
// daemon nor root, and the same programs give the same bytes.
//
//	image -version v1.2.3 -o tailscope.oci.tar amd64=FILE arm64=FILE
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user owns the data and runs the program. It is "nonroot" of distroless images.
const user = 65532

func main() {
	version := flag.String("version", "devel", "the version that the image is named after")
	out := flag.String("o", "tailscope.oci.tar", "the archive to write")
	flag.Parse()
	if err := run(*version, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(version, out string, programs []string) error {
	if len(programs) == 0 {
		return errors.New("no program is named: write amd64=FILE, arm64=FILE or both")
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range programs {
		arch, file, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q does not name an architecture: write amd64=FILE", arg)
		}
		program, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%w: build it with make release", err)
		}
		image, err := imageOf(arch, version, program)
		if err != nil {
			return fmt.Errorf("image of %s: %w", file, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	return archive(out, dir)
}

// imageOf returns an image of one layer: the program, certificates of public authorities
// for receivers and checks by HTTPS, and a directory for the data.
func imageOf(arch, version string, program []byte) (v1.Image, error) {
	files, err := files(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{"/tailscope"},
		Cmd:          []string{"serve"},
		Env:          []string{"HOME=/data", "TAILSCOPE_DATA=/data", "TAILSCOPE_LISTEN=:7099", "TAILSCOPE_OTLP_GRPC=:4317", "TAILSCOPE_OTLP_HTTP=:4318"},
		ExposedPorts: map[string]struct{}{"7099/tcp": {}, "4317/tcp": {}, "4318/tcp": {}},
		Volumes:      map[string]struct{}{"/data": {}},
		WorkingDir:   "/data",
		Labels:       map[string]string{"org.opencontainers.image.title": "tailscope", "org.opencontainers.image.version": version},
	}
	return mutate.ConfigFile(image, config)
}

// files returns the tar of what is in the image.
func files(program []byte) ([]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file cannot say up to when an authority is trusted
			if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name    string
		mode    fs.FileMode
		owner   int
		content []byte
	}{
		{"tmp/", 0o1777, 0, nil},
		{"data/", 0o700, user, nil},
		{"etc/", 0o755, 0, nil},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, roots.Bytes()},
		{"tailscope", 0o755, 0, program},
	} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// archive writes the files below dir to a tar, in the order of their names and without
// their times and owners.
func archive(out, dir string) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), f.Close())
}
