package cloudconf

import (
	"encoding/base64"
	"strings"
	"testing"
)

// otherKinds are files that operators mount in place of a cloud.conf, with a part of the message.
func otherKinds() map[string]string {
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(aCloud, 3)))
	return map[string]string{
		"apiVersion: v1\nkind: Secret\nmetadata:\n  name: cloud-config\nstringData:\n" +
			"  cloud.conf: |\n    [Global]\n    password=hunter2\n": "a Kubernetes manifest",
		"apiVersion: v1\nkind: Secret\ndata:\n  cloud.conf: aHVudGVyMgo=\n": "a Kubernetes " +
			"manifest",
		"apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: hunter2}}]\n":     "a kubeconfig",
		"clusters: []\ncurrent-context: a\nusers: [{name: a, user: {token: hunter2}}]\n": "a kubeconfig",

		aCloud:              "a clouds.yaml",
		"---\n" + aCloud:    "a clouds.yaml",
		"# mine\n" + aCloud: "a clouds.yaml",

		"cloudConfig:\n  global:\n    password: hunter2\n": "YAML",
		"cloud.conf: |\n  [Global]\n  password=hunter2\n":  "YAML",

		"#!/bin/bash\nexport OS_AUTH_URL=https://k\nexport OS_PASSWORD=hunter2": "an openrc",
		"OS_AUTH_URL=https://k\nOS_PASSWORD=hunter2\n":                          "an openrc",
		"# Ansible managed\nfor key in $( set | awk '{print $1}' ) ; do unset $key ; done\n" +
			"export OS_PROJECT_DOMAIN_NAME='Default'\n": "an openrc",
		"$env:OS_PASSWORD = \"hunter2\"\n": "an openrc",

		base64.StdEncoding.EncodeToString([]byte("[Global]\npassword = hunter2\n")):  "base64",
		base64.StdEncoding.EncodeToString([]byte("[Global]\npassword = p\n")) + "\n": "base64",
		long[:76] + "\n" + long[76:]: "base64",

		`{"clouds": {"prod": {"auth": {"password": "hunter2"}}}}`:   "JSON",
		"{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Secret\"\n}\n": "JSON",

		"-----BEGIN CERTIFICATE-----\nhunter2\n": "PEM",
		"\xff\xfe[\x00G\x00]\x00":                "UTF-16",
	}
}

func TestRead_FileOfAnotherKind_IsOneProblemThatNamesTheKind(t *testing.T) {
	t.Parallel()
	for content, kind := range otherKinds() {
		for _, strict := range []bool{false, true} {
			loaded, err := Read([]byte(content), Options{Strict: strict, Path: "cloud.conf"})
			got := refused(t, err)
			if len(got) != 1 || !strings.Contains(told(got), kind) || len(loaded.Warnings) > 0 ||
				strings.Contains(told(got), "hunter2") {
				t.Errorf("%q is refused for\n%s\nwant one problem with %s", content, told(got),
					kind)
			}
		}
	}
}

func TestRead_NoGlobal_IsOneProblem(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"":                    "[Global]: is missing: the file is empty",
		"\n# [Global]\n; x\n": "[Global]: is missing: the file is empty",
		"[LoadBalancer]\nenabled=true\n": "[Global]: is missing; write auth-url and the " +
			"credentials in it",
		"[Global]\n": "auth-url in [Global]: is missing; set it to the URL of Keystone\n" +
			"[Global]: has no credentials: set a password, an application credential or a token",
	} {
		_, err := Read([]byte(content), Options{})
		if got := told(refused(t, err)); got != want {
			t.Errorf("%q is refused for\n%s\nwant\n%s", content, got, want)
		}
	}
}

// A broken cloud.conf is still a cloud.conf.
func TestRead_BrokenCloudConf_IsNotOfAnotherKind(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"[Global\npassword = hunter2\n", "[Global]\npassword: hunter2\n",
		"[Global]\nexport OS_PASSWORD=hunter2\n", "password = hunter2\n", "hunter2\n",
		"# a: b\n[Global]\nOS_PASSWORD=x\n", "aHVudGVyMg==\n",
	} {
		_, err := Read([]byte(content), Options{})
		for _, p := range refused(t, err) {
			if strings.Contains(p.Text, "not a cloud.conf") {
				t.Errorf("%q is called %s", content, p)
			}
		}
	}
}

func TestClouds_FileOfAnotherKind_IsNamed(t *testing.T) {
	t.Parallel()
	for content, kind := range otherKinds() {
		if kind == "a clouds.yaml" || kind == "YAML" || kind == "JSON" ||
			kind == "UTF-16" {
			continue
		}
		_, o := inDir(t, map[string]string{"clouds.yaml": content})
		_, err := Read([]byte("[Global]\nuse-clouds\n"), o)
		if got := refused(t, err); len(got) != 1 || !strings.Contains(told(got), kind) ||
			strings.Contains(told(got), "hunter2") {
			t.Errorf("%q is refused for\n%s\nwant one problem with %s", content, told(got), kind)
		}
	}
	_, o := inDir(t, map[string]string{"clouds.yaml": login})
	_, err := Read([]byte("[Global]\nuse-clouds\n"), o)
	if got := refused(t, err); len(got) != 1 || !strings.Contains(told(got), "a cloud.conf") {
		t.Errorf("a cloud.conf is refused for\n%s", told(got))
	}
}
