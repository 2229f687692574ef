"""Manages users with an unmodified python-gitlab. Prints "ok" at the end, or fails at the first wrong answer."""
import base64
import sys

import gitlab

from checks import refused, same

url, token, group_id, project_id = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
gl = gitlab.Gitlab(url, private_token=token, keep_base_url=False)
gl.auth()

GIF = base64.b64decode("R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==")

# Creating, reading, listing
user = gl.users.create(
    {
        "username": "pia",
        "name": "Pia",
        "email": "pia@example.com",
        "password": "correct-horse",
        "skip_confirmation": True,
        "avatar": GIF,
        "provider": "ldapmain",
        "extern_uid": "cn=pia",
    }
)
same(user.avatar_url.startswith(f"{url}/uploads/-/system/user/avatar/{user.id}/"), True)
same(gl.users.get(user.id).email, "pia@example.com")
same([each.id for each in gl.users.list(username="PIA")], [user.id])
same([each.id for each in gl.users.list(search="pia@example.com")], [user.id])
same([each.id for each in gl.users.list(extern_uid="cn=pia", provider="ldapmain")], [user.id])
same(gl.users.list(iterator=True, per_page=1).total, len(gl.users.list(get_all=True)))
refused(409, "Email has already been taken", gl.users.create, {"username": "p2", "name": "p", "email": "pia@example.com", "reset_password": True})
refused(400, "password", gl.users.create, {"username": "p2", "name": "p", "email": "p2@example.com"})

# Changing
user.bio = "Writes Python"
user.email = "second@example.com"
refused(404, "Email", user.save)
user.emails.create({"email": "second@example.com", "skip_confirmation": True})
user.save()
user = gl.users.get(user.id)
same((user.bio, user.email), ("Writes Python", "second@example.com"))
same([each.email for each in user.emails.list()], ["pia@example.com"])
user.identityproviders.delete("ldapmain")
same(gl.users.get(user.id).identities, [])
refused(404, "", user.identityproviders.delete, "ldapmain")

# Custom attributes
for owner in (user, gl.groups.get(group_id), gl.projects.get(project_id)):
    same(owner.customattributes.set("team", "red").value, "red")
    same(owner.customattributes.set("team", "blue").value, "blue")
    same(owner.customattributes.get("team").value, "blue")
    same([(each.key, each.value) for each in owner.customattributes.list()], [("team", "blue")])
for manager, owner_id in ((gl.users, user.id), (gl.groups, group_id), (gl.projects, project_id)):
    same([each.id for each in manager.list(custom_attributes={"team": "blue"})], [owner_id])
    same(manager.list(custom_attributes={"team": "red"}), [])
    same(manager.get(owner_id, with_custom_attributes=True).custom_attributes, [{"key": "team", "value": "blue"}])
user.customattributes.delete("team")
same(user.customattributes.list(), [])

# States. A repeated request gets a different answer
same((user.block(), user.block()), (True, None))
same(gl.users.get(user.id).state, "blocked")
same((user.unblock(), user.unblock()), (True, False))

# Removing
user.delete(hard_delete=True)
refused(404, "404 User Not Found", gl.users.get, user.id)
# Instance settings
settings = gl.settings.get()
same((settings.asciidoc_max_includes, settings.spamcheck_api_key), (32, None))
settings.asciidoc_max_includes = 64
settings.domain_denylist = ["spam.example"]
settings.spamcheck_api_key = "key"
settings.default_branch_protection = 0
settings.save()
settings = gl.settings.get()
same((settings.asciidoc_max_includes, settings.domain_denylist), (64, ["spam.example"]))
same((settings.spamcheck_api_key, settings.default_branch_protection), ("********", 0))
settings.asciidoc_max_includes = 65
refused(400, "must be less than or equal to 64", settings.save)
same(gl.settings.get().asciidoc_max_includes, 64)

print("ok")
