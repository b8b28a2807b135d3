package options

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
)

// This file binds upstream's flag types to fields of other Go types.

func durationVar(
	set *pflag.FlagSet, p *metav1.Duration, name string, value metav1.Duration, usage string,
) {
	set.DurationVar(&p.Duration, name, value.Duration, usage)
}

// int32Var is an int32 on the command line and an int in Config.
func int32Var(set *pflag.FlagSet, p *int, name string, value int, usage string) {
	*p = value
	set.Var((*int32Value)(p), name, usage)
}

type int32Value int

func (v *int32Value) Set(s string) error {
	n, err := strconv.ParseInt(s, 0, 32)
	if err != nil {
		return fmt.Errorf("%q is not a whole number of 32 bits", s)
	}
	*v = int32Value(n)
	return nil
}
func (v *int32Value) Type() string   { return "int32" }
func (v *int32Value) String() string { return strconv.Itoa(int(*v)) }

// ipVar is an IP address on the command line and a string in Config.
func ipVar(set *pflag.FlagSet, p *string, name, value, usage string) {
	*p = value
	set.Var((*ipValue)(p), name, usage)
}

type ipValue string

// Set keeps the default for an empty value, like pflag.
func (v *ipValue) Set(s string) error {
	if s == "" {
		return nil
	}
	ip := net.ParseIP(strings.TrimSpace(s))
	if ip == nil {
		return fmt.Errorf("%q is not an IP address", s)
	}
	*v = ipValue(ip.String())
	return nil
}
func (v *ipValue) Type() string   { return "ip" }
func (v *ipValue) String() string { return string(*v) }

// certKeysVar is a list of "cert,key" or "cert,key:name,name", one for each flag.
func certKeysVar(set *pflag.FlagSet, p *[]string, name string, value []string, usage string) {
	*p = value
	set.Var(&certKeysValue{pairs: p}, name, usage)
}

type certKeysValue struct {
	pairs *[]string
	given bool
}

// Set replaces the default at the first call, and appends after that.
func (v *certKeysValue) Set(s string) error {
	var pair cliflag.NamedCertKey
	if err := pair.Set(s); err != nil {
		return err
	}
	if !v.given {
		*v.pairs, v.given = nil, true
	}
	*v.pairs = append(*v.pairs, pair.String())
	return nil
}
func (v *certKeysValue) Type() string { return "namedCertKey" }
func (v *certKeysValue) String() string {
	if v.pairs == nil { // pflag calls it on the zero value, too
		return "[]"
	}
	return "[" + strings.Join(*v.pairs, ";") + "]"
}
