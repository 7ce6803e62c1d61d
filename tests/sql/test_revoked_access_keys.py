from support.access_keys import ACCOUNT, KEY, SESSION, create, create_session
from support.postgres import Connection

REVOKED = "select key_id, account, name, revoked_by from skipmq.revoked_access_keys(%s)"


def test_revoked_key_keeps_its_name_and_who_revoked_it(owner: Connection, node: Connection) -> None:
    create(owner)
    create(owner, "AKIAOTHER", account="000000000000")
    create_session(owner)
    owner.execute("select skipmq.revoke_access_key('AKIAOTHER', 'ann')")
    owner.execute("select skipmq.revoke_access_key(%s, 'root')", (KEY,))

    rows = node.execute(REVOKED, (None,)).fetchall()

    mine = [(KEY, ACCOUNT, "tests", "root"), (SESSION, ACCOUNT, "tests", "root")]
    assert rows == [*mine, ("AKIAOTHER", "000000000000", "tests", "ann")]
    assert node.execute(REVOKED, (ACCOUNT,)).fetchall() == mine
