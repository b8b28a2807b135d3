//go:build tools

package deps

import (
	_ "github.com/go-logr/logr"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/pflag"
	_ "go.uber.org/fx"
	_ "go.uber.org/goleak"
	_ "golang.org/x/oauth2"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apiserver/pkg/server/options"
	_ "k8s.io/cloud-provider/app"
	_ "k8s.io/cloud-provider/options"
	_ "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-helpers/node/util"
	_ "k8s.io/controller-manager/pkg/features/register"
	_ "sigs.k8s.io/yaml"
)
