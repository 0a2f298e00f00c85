//! QEMU's own tools make incremental backups of an export by its dirty bitmap.

use crate::needs;
use crate::support::{Daemon, python, run, with_bitmaps};

/// Two ways to copy what is dirty: QEMU's backup job with a bitmap of its own, into which the dirty
/// blocks are merged, and reads that leave what they read in an overlay. Each copy is a layer over the
/// one before.
const SCRIPT: &str = r#"
import json, os, socket, subprocess, sys, time
directory, export, disktime = sys.argv[1:4]
SIZE, BLOCK = 64 << 20, 65536
SOCKET = directory + '/nbd.sock'
URI = 'nbd+unix:///%s?socket=%s' % (export, SOCKET)
def call(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
def step(*words):
    config = directory + '/disktime.toml'
    return call(disktime, 'vdisk', 'bitmap', *words, '--json', '--config', config)
def io(image, form, *steps, copy=None):
    options = ['-f', form] + ([copy] if copy else [])
    said = call('qemu-io', *options, *[word for step in steps for word in ('-c', step)], image)
    assert 'fail' not in said and 'rror' not in said, said
def dirty():
    "Where QEMU sees dirty bytes: it shows them as no data."
    options = 'driver=nbd,server.type=unix,server.path=%s,export=%s' % (SOCKET, export)
    options += ',x-dirty-bitmap=qemu:dirty-bitmap:daily'
    extents = json.loads(call('qemu-img', 'map', '--output=json', '--image-opts', options))
    return [(it['start'], it['length']) for it in extents if not it['data']]
def layer(name, below):
    path = '%s/%s-%s.qcow2' % (directory, export, name)
    backing = ['-b', below, '-F', 'qcow2'] if below else []
    call('qemu-img', 'create', '-q', '-f', 'qcow2', *backing, path, str(SIZE))
    return path
class Storage:
    "A storage daemon of QEMU's with the export as its node `disk`."
    def __init__(self):
        path = '%s/%s-qmp.sock' % (directory, export)
        self.daemon = subprocess.Popen([
            'qemu-storage-daemon', '--chardev', 'socket,id=qmp,server=on,wait=off,path=' + path,
            '--monitor', 'chardev=qmp'])
        self.socket, until = socket.socket(socket.AF_UNIX), time.monotonic() + 20
        while self.socket.connect_ex(path):
            assert time.monotonic() < until and self.daemon.poll() is None, 'it does not listen'
            time.sleep(.01)
        self.lines = self.socket.makefile('rw')
        json.loads(self.lines.readline())
        self.do('qmp_capabilities')
        server = {'type': 'unix', 'path': SOCKET}
        self.node('disk', driver='nbd', server=server, export=export)
    def do(self, command, **arguments):
        json.dump({'execute': command, 'arguments': arguments}, self.lines)
        self.lines.flush()
        said = {'event': ''}
        while 'event' in said:
            said = json.loads(self.lines.readline())
        assert 'error' not in said, said
        return said['return']
    def node(self, name, **options):
        self.do('blockdev-add', **{'node-name': name, **options})
    def backup(self, path, **options):
        "Runs a backup job to its end; answers the bytes that it copied."
        self.node('copy', driver='qcow2', file={'driver': 'file', 'filename': path})
        self.do('blockdev-backup', **{
            'job-id': 'job', 'device': 'disk', 'target': 'copy', 'auto-dismiss': False, **options})
        job = self.do('query-jobs')[0]
        while job['status'] != 'concluded':
            time.sleep(.01)
            job = self.do('query-jobs')[0]
        assert 'error' not in job and job['current-progress'] == job['total-progress'], job
        self.do('job-dismiss', id='job')
        self.do('blockdev-del', **{'node-name': 'copy'})
        return job['total-progress']
    def mark(self, extents):
        "A bitmap of the node `disk` with these extents, by writes to a node that keeps nothing."
        path = '%s/%s-marks.sock' % (directory, export)
        self.node('marks', driver='null-co', size=SIZE)
        for node in ['marks', 'disk']:
            self.do('block-dirty-bitmap-add', node=node, name='daily', granularity=BLOCK)
        self.do('nbd-server-start', addr={'type': 'unix', 'data': {'path': path}})
        self.do('block-export-add', **{
            'type': 'nbd', 'id': 'marks', 'node-name': 'marks', 'name': 'marks', 'writable': True})
        uri = 'nbd+unix:///marks?socket=' + path
        io(uri, 'raw', *['write -z %d %d' % extent for extent in extents])
        marked = {'node': 'marks', 'name': 'daily'}
        self.do('block-dirty-bitmap-merge', node='disk', target='daily', bitmaps=[marked])
    def end(self):
        self.do('quit')
        assert self.daemon.wait() == 0
def is_same(path):
    said = call('qemu-img', 'compare', '-f', 'qcow2', '-F', 'raw', path, URI)
    assert 'Images are identical' in said, said

# All of it, by a job.
io(URI, 'raw', 'write -P 1 0 64M')
step('begin', export, 'daily')
assert dirty() == [(0, SIZE)]
full = layer('full', None)
storage = Storage()
assert storage.backup(full, sync='full') == SIZE
storage.end()
io(URI, 'raw', 'write -P 2 1M 1')
step('done', export, 'daily')
assert dirty() == [(1 << 20, BLOCK)], 'written during the backup'

# What has changed, by a job; blocks that are written after the copy are for the next backup.
io(URI, 'raw', 'write -P 3 3M 200000', 'write -z -u 8M 1M', 'discard 20M 128k', 'write -P 4 50M 512')
step('begin', export, 'daily')
changed = dirty()
count = sum(length for _, length in changed)
assert count == BLOCK + 4 * BLOCK + (1 << 20) + 2 * BLOCK + BLOCK, changed
first = layer('first', full)
storage = Storage()
storage.mark(changed)
assert storage.backup(first, sync='incremental', bitmap='daily') == count
storage.end()
is_same(first)
io(URI, 'raw', 'write -P 5 50M 4096', 'write -P 6 40M 4096')
step('done', export, 'daily')
assert dirty() == [(40 << 20, BLOCK), (50 << 20, BLOCK)]

# What has changed, by reads into an overlay of the export, whose layer below is then the last backup.
io(URI, 'raw', 'discard 1M 64k', 'write -z 51M 3M', 'write -P 7 63M 1M')
step('begin', export, 'daily')
changed = dirty()
count = sum(length for _, length in changed)
assert count == 3 * BLOCK + (4 << 20), changed
second = '%s/%s-second.qcow2' % (directory, export)
call('qemu-img', 'create', '-q', '-f', 'qcow2', '-b', URI, '-F', 'raw', second)
io(second, 'qcow2', *['read %d %d' % extent for extent in changed], copy='-C')
call('qemu-img', 'rebase', '-u', '-f', 'qcow2', '-b', first, '-F', 'qcow2', second)
layers = json.loads(call('qemu-img', 'map', '-f', 'qcow2', '--output=json', second))
copied = sum(it['length'] for it in layers if it['depth'] == 0)
assert copied == count, layers
step('done', export, 'daily')
assert dirty() == []
is_same(second)
compare = ['qemu-img', 'compare', '-q', '-f', 'qcow2', '-F', 'raw', first, URI]
assert subprocess.run(compare).returncode == 1, 'the layer below is an older backup'
"#;

#[test]
fn qemu_backs_up_what_has_changed_and_nothing_else() {
    needs!(
        "qemu_backs_up_what_has_changed_and_nothing_else",
        "qemu-img",
        "qemu-io",
        "qemu-storage-daemon"
    );
    let daemon = Daemon::start(&with_bitmaps(r#"["daily"]"#));
    for export in ["mem", "file"] {
        let mut command = python(SCRIPT);
        command.arg(daemon.directory.path()).arg(export);
        run(command.arg(env!("CARGO_BIN_EXE_disktime")));
    }
    assert!(daemon.end("TERM").1);
}
