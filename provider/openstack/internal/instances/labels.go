package instances

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// labelValue makes a text a valid label value, as OCCM does: each run of invalid characters becomes
// a dash. OCCM truncates after it trims, so its label may end with a dash, which the API server
// refuses.
func labelValue(text string) string {
	var fit strings.Builder
	unfit := false
	for _, c := range []byte(text) {
		if isLabelByte(c) {
			fit.WriteByte(c)
		} else if !unfit {
			fit.WriteByte('-')
		}
		unfit = !isLabelByte(c)
	}
	const punctuation = "-_."
	value := strings.Trim(fit.String(), punctuation)
	if len(value) > validation.LabelValueMaxLength {
		value = strings.TrimRight(value[:validation.LabelValueMaxLength], punctuation)
	}
	return value
}

func isLabelByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' ||
		c == '_' || c == '.'
}

func isLabelValue(text string) bool { return len(validation.IsValidLabelValue(text)) == 0 }
