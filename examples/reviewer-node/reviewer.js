#!/usr/bin/env node
'use strict';

// A reviewer in JavaScript, over plain gRPC: it lets commands pass that certainly
// only read, refuses to publish by force, and leaves everything else to a person.
// docs/plugins.md tells what each part is for.
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const { certificate } = require('./certificate');

const load = (file) => grpc.loadPackageDefinition(loader.loadSync(file, { keepCase: true, enums: String, longs: Number }));
const regent = load(path.join(__dirname, '../../plugin/pluginpb/regent_plugin.proto')).regent.plugin.v1;
const health = load(path.join(__dirname, 'health.proto')).grpc.health.v1;

function review(question) {
  const request = JSON.parse(question.request);
  const ruling = JSON.parse(question.ruling);
  if (typeof request !== 'object' || request === null || typeof request.kind !== 'string') {
    throw new Error('this is no request');
  }
  const text = request.command?.text ?? '';
  if (/\bgit\b.*\bpush\b.*(\s-f\b|--force\b)/.test(text)) {
    return { outcome: 'OUTCOME_DENY', risk: 'RISK_HIGH', rationale: 'it publishes by force' };
  }
  if (ruling.read_only === true) {
    return { outcome: 'OUTCOME_ALLOW', risk: 'RISK_LOW', rationale: 'it only reads' };
  }
  return { outcome: 'OUTCOME_UNSURE', rationale: 'a person has to look at this' };
}

function main() {
  // The magic cookie tells a host from a person who tries the program.
  if (process.env.REGENT_PLUGIN !== '8d2f6a4e-regent-plugin') {
    console.error('reviewer-node is a plugin of Regent, which starts it');
    process.exit(2);
  }
  if (!(process.env.PLUGIN_PROTOCOL_VERSIONS ?? '').split(',').includes('1')) {
    console.error('the host does not speak version 1');
    process.exit(2);
  }

  const server = new grpc.Server({ 'grpc.max_receive_message_length': 4 << 20 });
  server.addService(regent.Plugin.service, {
    Describe: (call, done) => done(null, { name: 'reviewer-node', version: '1.0.0', kinds: ['KIND_REVIEWER'] }),
  });
  server.addService(regent.Reviewer.service, {
    Review: (call, done) => {
      try {
        done(null, { id: call.request.id, ...review(call.request) });
      } catch (fault) {
        done({ code: grpc.status.INVALID_ARGUMENT, message: fault.message });
      }
    },
  });
  server.addService(health.Health.service, {
    Check: (call, done) => (call.request.service === 'plugin'
      ? done(null, { status: 'SERVING' })
      : done({ code: grpc.status.NOT_FOUND, message: 'only plugin is served' })),
  });

  // Nobody but the host that started us gets through, and it to nobody but us.
  const own = certificate();
  const credentials = grpc.ServerCredentials.createSsl(
    Buffer.from(process.env.PLUGIN_CLIENT_CERT), [{ private_key: Buffer.from(own.key), cert_chain: Buffer.from(own.cert) }], true);
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR, 'plugin.sock');
  server.bindAsync(`unix://${socket}`, credentials, (fault) => {
    if (fault) {
      throw fault;
    }
    // The handshake is the first line on standard output, and the only one.
    console.log(`1|1|unix|${socket}|grpc|${own.der.toString('base64').replace(/=+$/, '')}`);
  });

  // Standard input carries nothing, and ends when the host does.
  process.stdin.resume().on('end', () => process.exit(0));
  process.on('SIGTERM', () => process.exit(0));
}

main();
