"""Lists projects with an unmodified python-gitlab. Prints "ok" at the end, or fails at the first wrong answer."""
import sys

import gitlab

from checks import same

url, token, admin_token = sys.argv[1:4]
gl = gitlab.Gitlab(url, private_token=token, keep_base_url=False)
admin = gitlab.Gitlab(url, private_token=admin_token, keep_base_url=False)
anonymous = gitlab.Gitlab(url, keep_base_url=False)


def names(projects):
    return [each.name for each in projects]

gl.auth()
me = gl.user
group = gl.groups.create({"name": "Lists", "path": "python-lists", "visibility": "public"})
one = gl.projects.create({"name": "one", "namespace_id": group.id, "visibility": "public", "topics": ["py-list", "py-one"]})
two = gl.projects.create({"name": "two", "topics": ["py-list"], "initialize_with_readme": True})
three = gl.projects.create({"name": "three", "description": "the third", "topics": ["py-list"], "issues_enabled": False})


def listed(client=gl, **filters):
    return names(client.projects.list(get_all=True, **{"topic": "py-list", "order_by": "id", "sort": "asc", **filters}))


same(listed(), ["one", "two", "three"])
same(listed(anonymous), ["one"])
same(listed(admin), ["one", "two", "three"])
same(listed(per_page=1), ["one", "two", "three"])
same(listed(per_page=1, pagination="keyset"), ["one", "two", "three"])
same(listed(per_page=1, pagination="keyset", sort="desc"), ["three", "two", "one"])
same(listed(order_by="name"), ["one", "three", "two"])
same(listed(search="third"), ["three"])
same(listed(search="python-lists", search_namespaces=True), ["one"])
same(listed(topic="py-list,py-one"), ["one"])
same(listed(visibility="private"), ["two", "three"])
same(listed(archived=False, owned=True, membership=True, min_access_level=gitlab.const.AccessLevel.OWNER), ["one", "two", "three"])
same(listed(with_issues_enabled=True), ["one", "two"])
same(listed(id_after=one.id, id_before=three.id), ["two"])
same(listed(last_activity_after="2999-01-01T00:00:00Z"), [])
same(listed(with_programming_language="Cobol"), [])
same(listed(repository_checksum_failed=True), [])
same(listed(wiki_checksum_failed=False, statistics=True), ["one", "two", "three"])
same([each.statistics["commit_count"] for each in gl.projects.list(topic="py-list", statistics=True, order_by="id")], [0, 1, 0])
same(hasattr(gl.projects.list(topic="py-list", simple=True)[0], "visibility"), False)
same(gl.projects.list(topic="py-list", iterator=True).total, 3)
try:
    gl.projects.list(order_by="beauty")
except gitlab.exceptions.GitlabError as error:
    same(error.response_code, 400)
    if "order_by does not have a valid value (allowed: id, name" not in error.error_message:
        raise AssertionError(error.error_message)
else:
    raise AssertionError("not refused")

# Projects of a user and of a group
person = gl.users.get(me.id)
same(names(person.projects.list(order_by="id", sort="asc", get_all=True)), ["two", "three"])
same(names(anonymous.users.get(me.id, lazy=True).projects.list()), [])
same(names(group.projects.list(include_subgroups=True)), ["one"])

# Stars
two.star()
try:
    two.star()
except gitlab.exceptions.GitlabCreateError as error:
    same(error.response_code, 304)
else:
    raise AssertionError("starred twice")
same(listed(starred=True), ["two"])
same(gl.projects.get(two.id).star_count, 1)
same([each["user"]["id"] for each in gl.http_list(f"/projects/{two.id}/starrers")], [me.id])
two.unstar()
same(listed(starred=True), [])

# A single project
record = gl.projects.get(two.path_with_namespace, license=True, statistics=True)
same((record.license, record.permissions["project_access"]["access_level"]), (None, 50))
same(hasattr(anonymous.projects.get(one.id), "visibility"), False)

# Topics
topic = admin.topics.create({"name": "py-made", "title": "Made"})
topic.description = "by hand"
topic.save()
same(anonymous.topics.get(topic.id).description, "by hand")
carried = [each for each in admin.topics.list(search="py-one")][0]
same(names(gl.projects.list(topic_id=carried.id)), ["one"])
admin.topics.merge(carried.id, topic.id)
same(gl.projects.get(one.id).topics, ["py-list", "py-made"])
topic.delete()
same(gl.projects.get(one.id).topics, ["py-list"])
print("ok")
