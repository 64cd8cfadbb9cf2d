vcl 4.1;

# Varnish 7 as a cache in front of edges with --cache-scope public (README.md).
#
#   envsubst '$EDGE_HOST $EDGE_PORT' <varnish.vcl >/etc/varnish/default.vcl
#   varnishd -f /etc/varnish/default.vcl -a :8080 -s malloc,1g \
#     -p http_gzip_support=off -p vsl_mask=-ReqHeader,-BereqHeader,-ReqURL,-BereqURL -p timeout_idle=120 \
#     -p http_req_size=64k -p http_req_hdr_len=64k -p http_max_hdr=128 \
#     -p workspace_client=256k -p workspace_backend=256k
#
# The first parameter leaves codings to the edge. The second keeps API keys, including those
# in queries, out of Varnish's log. The third is the edge's --idle-timeout. The others let
# heads of 32 KiB and 100 lines through (INTERFACE.md, "Framing"), and let the edge refuse
# somewhat larger ones. The edges must trust Varnish's address (--trusted-proxies).

import std;

backend edges {
    .host = "${EDGE_HOST}";
    .port = "${EDGE_PORT}";
    .first_byte_timeout = 5s;
    .between_bytes_timeout = 40s; # for /events, which sends a comment every 15 s
}

# Clients that may drop cached answers.
acl droppers {
    "127.0.0.1";
    "::1";
}

sub vcl_recv {
    # Each request passes through here twice: first to check whether its key is valid
    # (Checking: yes), then as itself (no).
    if (req.restarts == 0) {
        unset req.http.Checking;
        unset req.http.Asked;
        if (req.method == "BAN") {
            if (client.ip !~ droppers || req.http.Surrogate-Key !~ "^[0-9a-zA-Z]+$") {
                return (synth(405));
            }
            ban("obj.http.Surrogate-Key ~ (^|\s)" + req.http.Surrogate-Key + "(\s|$)");
            return (synth(200));
        }
    }
    # Only the edge can answer requests that have a pin in a header, which is not part of the
    # cache key; preconditions; or codings with weights, which few clients send. The edge
    # checks the keys of these requests itself.
    if ((req.method != "GET" && req.method != "HEAD") ||
        req.url !~ "^/(at/[^/]+/)?openapi/v1/" || req.url ~ "^/openapi/v1/events(\?|$)" ||
        req.http.X-Snapshot-Time || !req.http.X-Api-Key ||
        req.http.If-Match || req.http.If-Unmodified-Since ||
        req.http.Accept-Encoding ~ "(?i)[^a-z, -]|identity" || req.http.Checking == "refused") {
        return (pass);
    }
    if (req.restarts == 0) {
        std.collect(req.http.X-Api-Key);
        set req.http.Checking = "yes";
        set req.http.Asked = req.url;
        set req.url = "/openapi/v1/global";
        return (hash);
    }
    unset req.http.Range;
    # The coding that the edge chooses if no coding has a weight (INTERFACE.md, "Codings").
    if (req.http.Accept-Encoding ~ "(?i)(^|[, ])zstd([, ]|$)") {
        set req.http.Accept-Encoding = "zstd";
    } elsif (req.http.Accept-Encoding ~ "(?i)(^|[, ])gzip([, ]|$)") {
        set req.http.Accept-Encoding = "gzip";
    } elsif (req.http.Accept-Encoding ~ "(?i)(^|[, ])br([, ]|$)") {
        set req.http.Accept-Encoding = "br";
    } else {
        unset req.http.Accept-Encoding;
    }
    return (hash);
}

sub vcl_hash {
    if (req.http.Checking == "yes") {
        hash_data("key");
        hash_data(req.http.X-Api-Key);
    } else {
        hash_data(req.url);
    }
    return (lookup);
}

sub vcl_backend_fetch {
    unset bereq.http.Asked;
    if (!bereq.uncacheable) {
        # Fetch only complete answers: after a 304, an entry would keep its old Surrogate-Key.
        unset bereq.http.If-None-Match;
        unset bereq.http.If-Modified-Since;
    }
    if (bereq.http.Checking == "yes") {
        unset bereq.http.Accept-Encoding;
    }
    return (fetch);
}

sub vcl_backend_response {
    if (beresp.http.Cache-Control !~ "^public") { # errors are no-store
        set beresp.uncacheable = true;
        set beresp.ttl = 1s; # for this long, requests do not wait for each other's answers
    } elsif (bereq.http.Checking == "yes") {
        # How much later than on the edges the end of a key takes effect here.
        set beresp.ttl = 5s;
        set beresp.grace = 0s;
    }
    return (deliver);
}

sub vcl_deliver {
    if (req.http.Checking == "yes") {
        set req.url = req.http.Asked;
        set req.http.Checking = "no";
        if (resp.status != 200) {
            # Do not send this answer to the client: the edge itself tells the client.
            set req.http.Checking = "refused";
        }
        return (restart);
    }
    unset resp.http.X-Varnish;
    if (obj.hits > 0) {
        set resp.http.Cache-Status = resp.http.Cache-Status + ", varnish; hit";
    } elsif (resp.http.Cache-Status) {
        set resp.http.Cache-Status = resp.http.Cache-Status + ", varnish; fwd=miss";
    }
    return (deliver);
}

# Errors that Varnish creates itself have the envelope (INTERFACE.md, "Errors"), except for
# errors of its parser.
sub vcl_synth {
    if (resp.status != 503) { # answers to BAN
        return (deliver);
    }
    set resp.http.Content-Type = "application/json";
    set resp.http.Cache-Control = "no-store";
    set resp.http.Retry-After = "1";
    set resp.http.Access-Control-Allow-Origin = "*";
    set resp.http.Access-Control-Expose-Headers = "X-Request-Id, Retry-After";
    set resp.http.X-Request-Id = "varnish-" + req.xid;
    set resp.body = {"{"code":50300,"message":"the cache failed to answer","message_key":"SERVICE_UNAVAILABLE","result":{}}"};
    return (deliver);
}

sub vcl_backend_error {
    set beresp.http.Content-Type = "application/json";
    set beresp.http.Cache-Control = "no-store";
    set beresp.http.Retry-After = "1";
    set beresp.http.Access-Control-Allow-Origin = "*";
    set beresp.http.Access-Control-Expose-Headers = "X-Request-Id, Retry-After";
    set beresp.http.X-Request-Id = "varnish-" + bereq.xid;
    set beresp.body = {"{"code":50300,"message":"no edge answers","message_key":"SERVICE_UNAVAILABLE","result":{}}"};
    return (deliver);
}
