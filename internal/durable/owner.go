package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// heir returns the user and group to which a file or folder at path should belong. If this process
// runs as root, they are those of the folder that contains path: a service often owns a folder in
// which root works now and then, and could not change root's files. The boolean result is false if
// the ownership should not change, because the process does not run as root or the folder belongs
// to root.
func heir(path string) (uid, gid int, is bool, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, false, nil
	}
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return 0, 0, false, err
	}
	own, is := above.Sys().(*syscall.Stat_t)
	if !is || own.Uid == 0 {
		return 0, 0, false, nil
	}
	return int(own.Uid), int(own.Gid), true, nil
}

// Inherit makes f belong to the owner of the folder that contains it, if this process runs as root.
func Inherit(f *os.File) error {
	uid, gid, is, err := heir(f.Name())
	if err != nil || !is {
		return err
	}
	return f.Chown(uid, gid)
}

// Mkdir is os.Mkdir followed by Inherit. The folder becomes visible only after it has its final
// owner, so that files that others create in it also get that owner.
func Mkdir(path string, mode fs.FileMode) error {
	uid, gid, is, err := heir(path)
	if err != nil {
		return err
	}
	if !is {
		return os.Mkdir(path, mode)
	}
	temp := filepath.Join(filepath.Dir(path), Prefix+rand.Text())
	if err := os.Mkdir(temp, mode); err != nil {
		return err
	}
	err = os.Lchown(temp, uid, gid)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// MkdirAll is os.MkdirAll with Mkdir instead of os.Mkdir.
func MkdirAll(path string, mode fs.FileMode) error {
	path = filepath.Clean(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if above := filepath.Dir(path); above != path {
		if err := MkdirAll(above, mode); err != nil {
			return err
		}
	}
	err := Mkdir(path, mode)
	if errors.Is(err, fs.ErrExist) {
		return os.MkdirAll(path, mode) // Another process created it, or it is not a folder.
	}
	return err
}
