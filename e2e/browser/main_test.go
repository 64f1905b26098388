package browser

import (
	"os"
	"testing"

	"garcon/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }
