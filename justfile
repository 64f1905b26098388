# Lists the recipes.
default:
    @just --list

# Builds the static, stripped binary.
build:
    CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o garcon .

# Runs a controller with the demo agent.
dev *ARGS:
    go run . controller --demo {{ARGS}}

# Builds the web interface into ui/dist, which is committed.
ui:
    npm ci --prefix ui --no-audit --no-fund
    npm --prefix ui run build

# Serves the web interface live from its source, in front of a controller on port 8080.
ui-dev:
    npm --prefix ui run dev

# Checks and tests the web interface.
ui-check:
    npm --prefix ui run check
    npm --prefix ui run test

# Formats the code.
fmt:
    go tool gofumpt -w $(git ls-files '*.go')

# Runs every test with the race detector.
test *ARGS:
    go test -race {{ARGS}} ./...

# Installs the pinned agent programs that e2e tests drive.
agents:
    npm ci --prefix e2e/agents

# Runs the end-to-end tests with the real agents.
e2e *ARGS: agents
    GARCON_E2E_AGENTS="$PWD/e2e/agents" go test -race {{ARGS}} ./e2e/...

# Checks format, analysis and tests.
check: lint ui-check test

# Vets the code.
lint:
    test -z "$(go tool gofumpt -l $(git ls-files '*.go'))"
    go vet ./...
    go tool staticcheck ./...

# Runs each fuzz target for a while.
fuzz TIME='60s':
    #!/usr/bin/env bash
    set -euo pipefail
    for package in $(go list ./...); do
      for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
        go test -run '^$' -fuzz "^$target\$" -fuzztime {{TIME}} "$package"
      done
    done

# Prints the figures this project holds itself to.
bench *ARGS:
    go test -run '^$' -bench . {{ARGS}} ./store/... ./e2e/...

# Does what CI does.
ci:
    .ci/run
