"""Makes the files beside it: networks of documentation and of this machine, in MaxMind's format.

    pip install mmdb_writer==0.2.7 && python3 make.py
"""

from netaddr import IPSet
from mmdb_writer import MMDBWriter


def write(name, kind, rows, int_type="u32"):
    writer = MMDBWriter(6, kind, ipv4_compatible=True, languages=["en"], description=f"{kind} of the tests", int_type=int_type)
    for networks, record in rows:
        writer.insert_network(IPSet(networks), record)
    writer.to_db_file(name)


def system(number):
    return {"autonomous_system_number": number, "autonomous_system_organization": "Example"}


def country(code):
    return {"country": {"iso_code": code, "names": {"en": "Example"}}, "registered_country": {"iso_code": "ZZ"}}


write("asn.mmdb", "Test-ASN", [
    (["127.0.3.0/24"], system(64500)),
    (["2001:db8::/32"], system(64501)),
    (["203.0.113.0/24"], system(64502)),
])
write("country.mmdb", "Test-Country", [
    (["127.0.3.0/24", "127.0.4.0/24"], country("XX")),
    (["2001:db8::/32"], country("YY")),
    (["203.0.113.0/24"], {"registered_country": {"iso_code": "ZZ"}}),
])

# The fields of other makers, as their documents show them.
for width in ["u16", "u64", "i32"]:
    write(f"asn-{width}.mmdb", "Test-ASN", [(["127.0.3.0/24"], system(64500))], int_type=width)
write("ipinfo-lite.mmdb", "Test-ipinfo_lite", [
    (["127.0.3.0/24"], {"asn": "AS64500", "as_name": "Example", "country": "Example Land", "country_code": "XX"}),
])
write("ipinfo-country-asn.mmdb", "Test-ipinfo_country_asn", [
    (["127.0.3.0/24"], {"asn": "AS64500", "as_name": "Example", "country": "XX", "country_name": "Example Land"}),
])
write("dbip-city.mmdb", "Test-DBIP-City-Lite", [
    (["127.0.3.0/24"], {"city": {"names": {"en": "Example"}}, "country": {"iso_code": "XX", "is_in_european_union": False}}),
])
