package openstacktest

import "encoding/pem"

// CertificatePEM is the certificate that a client must trust, in PEM; "" without [WithTLS].
func (s *Cloud) CertificatePEM() string { return s.certificatePEM() }

func (s *Cloud) certificatePEM() string {
	certificate := s.http.Certificate()
	if certificate == nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
}
