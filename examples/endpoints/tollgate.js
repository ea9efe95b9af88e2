// nginx reports the head of each answer to the gate, for nginx-njs.conf in this folder (njs 0.7.9 or newer).

// Each byte of a value as one character of JSON: not every value is UTF-8.
function bytes(value) {
    var text = '';
    Buffer.from(String(value)).forEach(function (byte) {
        var is_plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
        text += is_plain ? String.fromCharCode(byte) : '\\u' + ('000' + byte.toString(16)).slice(-4);
    });
    return '"' + text + '"';
}

function report(r) {
    var receipt = r.variables.tollgate_receipt;
    // Of the last server that was tried. Without one nginx answers by itself, and the attempt keeps its charge.
    var status = /[1-9][0-9]{2}$/.exec(r.variables.upstream_status || '');
    var came = /[0-9]$/.test(r.variables.upstream_header_time || '');
    if (!receipt || !status || !came) {
        return;
    }
    var type = r.headersOut['Content-Type'];
    var lines = r.rawHeadersOut.concat(type ? [['Content-Type', type]] : []);
    var headers = lines.map(function (line) {
        return '[' + bytes(line[0]) + ',' + bytes(line[1]) + ']';
    });
    var answer = '{"status":' + status[0] + ',"headers":[' + headers.join(',') + ']}';
    try {
        // Detached: the answer does not wait for it.
        r.subrequest('/_tollgate/outcome', {
            method: 'POST',
            body: '{"receipt":' + bytes(receipt) + ',"answer":' + answer + '}',
            detached: true,
        });
    } catch (error) {
        r.error('tollgate: ' + error);
    }
}

export default { report };
