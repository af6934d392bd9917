//go:build !unix || solaris || aix

package config

import (
	"errors"
	"os"
)

const noFollow = 0

func tryLock(*os.File) (taken bool, err error) { return false, errors.ErrUnsupported }
