package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// How long certificates are good for. Remove one to have it made again.
const (
	authorityAge   = 10 * 365 * 24 * time.Hour
	certificateAge = 365 * 24 * time.Hour
	serialBits     = 128
)

func (a *Authority) tls() bool { return len(a.plan.Hosts) > 0 }

// certificates makes what is not there: an authority, one for the servers, one a role.
func (a *Authority) certificates() error {
	if !a.tls() {
		return nil
	}
	if err := os.MkdirAll(a.path("tls"), folderMode); err != nil {
		return unusable(a.Dir, err)
	}
	ca, caKey, err := a.certificate("ca", &x509.Certificate{
		Subject: pkix.Name{CommonName: "crumbmesh authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, authorityAge, nil, nil)
	if err != nil {
		return err
	}
	server := &x509.Certificate{Subject: pkix.Name{CommonName: a.plan.Hosts[0]}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}} // routes between servers need both
	for _, h := range a.plan.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, h)
		}
	}
	if _, _, err := a.certificate("server", server, certificateAge, ca, caKey); err != nil {
		return err
	}
	for _, r := range a.Mesh().Roles() {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: r.Name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if _, _, err := a.certificate(r.Name, c, certificateAge, ca, caKey); err != nil {
			return err
		}
	}
	return nil
}

// certificate reads a certificate and its key, or makes them; without a parent it
// signs itself.
func (a *Authority) certificate(name string, c *x509.Certificate, age time.Duration, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certFile, keyFile := a.path("tls", name+".pem"), a.path("tls", name+".key")
	if _, err := os.Stat(certFile); errors.Is(err, fs.ErrNotExist) {
		if err := issue(certFile, keyFile, c, age, parent, signer); err != nil {
			return nil, nil, unusable(a.Dir, err)
		}
	}
	certDER, err := block(certFile)
	if err != nil {
		return nil, nil, unusable(a.Dir, err)
	}
	keyDER, err := block(keyFile)
	if err != nil {
		return nil, nil, unusable(a.Dir, err)
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fault.New(fault.InvalidConfig, "%s: %v; remove it and %s to have new ones made", certFile, err, keyFile)
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, nil, fault.New(fault.InvalidConfig, "%s: %v; remove it and %s to have new ones made", keyFile, err, certFile)
	}
	return cert, key, nil
}

func issue(certFile, keyFile string, c *x509.Certificate, age time.Duration, parent *x509.Certificate, signer *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits)); err != nil {
		return err
	}
	c.NotBefore = time.Now().Add(-time.Minute) // clocks differ a little
	c.NotAfter = c.NotBefore.Add(age)
	if parent == nil {
		parent, signer = c, key
	}
	certDER, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(replace(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), secretMode),
		replace(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER}), publicMode))
}

func block(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, fault.New(fault.InvalidConfig, "%s: expected PEM", file)
	}
	return b.Bytes, nil
}
