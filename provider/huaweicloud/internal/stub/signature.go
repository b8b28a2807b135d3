package stub

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const algorithm = "SDK-HMAC-SHA256"

// verify returns what is wrong with the signature of a request (AK/SK signing, see "Signing API
// requests" in the API reference of Huawei Cloud), or "".
func verify(r *http.Request, body []byte) string {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	if !ok {
		return "no " + algorithm + " signature"
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ", ") {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	date := r.Header.Get("X-Sdk-Date")
	signed, err := time.Parse("20060102T150405Z", date)
	switch {
	case fields["Access"] != AccessKeyID:
		return "unknown access key"
	case err != nil || time.Since(signed).Abs() > 15*time.Minute:
		return "signature expired"
	case r.Header.Get("X-Project-Id") != ProjectID:
		return "wrong X-Project-Id"
	case !strings.Contains(r.URL.Path, "/"+ProjectID+"/"):
		return "wrong project in the path"
	}
	headers := strings.Split(fields["SignedHeaders"], ";")
	if !slices.Contains(headers, "x-sdk-date") {
		return "X-Sdk-Date is not signed"
	}
	var lines strings.Builder
	for _, name := range headers {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&lines, "%s:%s\n", name, strings.TrimSpace(value))
	}
	sum := sha256.Sum256(body)
	canonical := strings.Join([]string{
		r.Method, strings.TrimSuffix(r.URL.EscapedPath(), "/") + "/", canonicalQuery(r.URL),
		lines.String(), fields["SignedHeaders"], hex.EncodeToString(sum[:]),
	}, "\n")
	hashed := sha256.Sum256([]byte(canonical))
	mac := hmac.New(sha256.New, []byte(AccessKeySecret))
	fmt.Fprintf(mac, "%s\n%s\n%s", algorithm, date, hex.EncodeToString(hashed[:]))
	if want := hex.EncodeToString(mac.Sum(nil)); want != fields["Signature"] {
		return "verify aksk signature fail"
	}
	return ""
}

func canonicalQuery(u *url.URL) string {
	var pairs []string
	for key, values := range u.Query() {
		for _, value := range values {
			pairs = append(pairs, escape(key)+"="+escape(value))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
