'use strict';

// A certificate for one run: the host trusts this very one, and nobody else is to
// connect with it. Node's own library signs but writes no certificates, so this
// puts the few parts of one together (RFC 5280, in DER).
const crypto = require('crypto');

const der = (tag, ...parts) => {
  const body = Buffer.concat(parts);
  const length = body.length < 128 ? Buffer.from([body.length])
    : body.length < 256 ? Buffer.from([0x81, body.length])
      : Buffer.from([0x82, body.length >> 8, body.length & 0xff]);
  return Buffer.concat([Buffer.from([tag]), length, body]);
};
const sequence = (...parts) => der(0x30, ...parts);
const oid = (hex) => der(0x06, Buffer.from(hex, 'hex'));
const time = (date) => der(0x18, Buffer.from(date.toISOString().replace(/[-:T]/g, '').slice(0, 14) + 'Z'));

// certificate returns {key, cert, der}: both in PEM, and the certificate in DER.
function certificate() {
  const { privateKey, publicKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSHA256 = sequence(oid('2a8648ce3d040302'));
  const name = sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from('localhost')))));
  const serial = crypto.randomBytes(16);
  serial[0] = (serial[0] & 0x7f) | 0x40; // positive, and without a zero in front
  const day = 24 * 60 * 60 * 1000;
  const extensions = der(0xa3, sequence(
    // The name that the host asks for: subjectAltName, dNSName localhost.
    sequence(oid('551d11'), der(0x04, sequence(der(0x82, Buffer.from('localhost'))))),
    // extKeyUsage serverAuth.
    sequence(oid('551d25'), der(0x04, sequence(oid('2b06010505070301')))),
  ));
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))), // version 3
    der(0x02, serial),
    ecdsaWithSHA256,
    name,
    sequence(time(new Date(Date.now() - day)), time(new Date(Date.now() + 3650 * day))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    extensions,
  );
  const signature = crypto.sign('sha256', body, privateKey);
  const whole = sequence(body, ecdsaWithSHA256, der(0x03, Buffer.from([0]), signature));
  const lines = whole.toString('base64').match(/.{1,64}/g).join('\n');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    der: whole,
  };
}

module.exports = { certificate };
