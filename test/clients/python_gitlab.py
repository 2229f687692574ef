"""Uses a hub with an unmodified python-gitlab. Prints "ok" at the end, or fails at the first wrong answer."""
import io
import sys
import time

import gitlab

from checks import refused, same

url, token, other_id = sys.argv[1], sys.argv[2], int(sys.argv[3])
gl = gitlab.Gitlab(url, private_token=token, keep_base_url=False)

# The current user
gl.auth()
me = gl.user.username
same(gl.version()[0].split(".")[0], "17")

# Groups, subgroups, members
group = gl.groups.create({"name": "Python", "path": "python", "visibility": "public"})
sub = gl.groups.create({"name": "Sub", "path": "sub", "parent_id": group.id})
same(gl.groups.get("python/sub").id, sub.id)
group.description = "Changed"
group.save()
same(gl.groups.get(group.id).description, "Changed")
same([each.id for each in group.subgroups.list()], [sub.id])
member = group.members.create({"user_id": other_id, "access_level": gitlab.const.AccessLevel.DEVELOPER})
same(member.access_level, 30)
member.access_level = 40
member.save()
same(group.members.get(other_id).access_level, 40)
same(sorted(each.access_level for each in sub.members_all.list(get_all=True)), [40, 50])
group.members.delete(other_id)
same(len(group.members.list()), 1)

# Projects: create, read by path, list by page number and by keyset, change, delete
for n in range(5):
    gl.projects.create({"name": f"p{n}", "namespace_id": group.id, "visibility": "private"})
names = [each.path for each in group.projects.list(per_page=2, iterator=True, order_by="name", sort="asc")]
same(names, ["p0", "p1", "p2", "p3", "p4"])
page = group.projects.list(per_page=2, page=2, iterator=True)
same((page.total, page.total_pages, page.current_page, page.next_page, page.prev_page), (5, 3, 2, 3, 1))
keyed = gl.projects.list(pagination="keyset", order_by="id", sort="asc", per_page=2, iterator=True, membership=True)
same([each.path for each in keyed], ["p0", "p1", "p2", "p3", "p4"])
same(gl.http_head(f"/groups/{group.id}/projects")["X-Total"], "5")
project = gl.projects.create({"name": "Wheel", "initialize_with_readme": "True", "topics": ["a", "b"]})
same(gl.projects.get(f"{me}/wheel").topics, ["a", "b"])
same(project.default_branch, "main")
project.description = "Turns"
project.save()
same(gl.projects.get(project.id).description, "Turns")
project.members.create({"user_id": other_id, "access_level": 20})
same(sorted(each.id for each in project.members_all.list(get_all=True)), sorted([gl.user.id, other_id]))

# Contents of projects
branch = project.branches.create({"branch": "feature/x", "ref": "main"})
same(project.branches.get("feature/x").commit["id"], branch.commit["id"])
same([each.name for each in project.branches.list()], ["feature/x", "main"])
branch.delete()
protected = project.protectedbranches.get("main")
same([each["access_level"] for each in protected.push_access_levels], [40])
same(len(project.commits.list()), 1)
label = project.labels.create({"name": "bug", "color": "#ff0000"})
label.new_name = "defect"
label.save()
same([each.name for each in project.labels.list()], ["defect"])
milestone = project.milestones.create({"title": "v1", "due_date": "2030-01-31"})
issue = project.issues.create({"title": "Squeaks", "labels": ["defect"], "milestone_id": milestone.id})
same((issue.iid, issue.labels, issue.milestone["title"]), (1, ["defect"], "v1"))
note = issue.notes.create({"body": "Oil it"})
note.body = "Oil it well"
note.save()
same(issue.notes.get(note.id).body, "Oil it well")
issue.state_event = "close"
issue.save()
same([each.iid for each in project.issues.list(state="closed")], [1])
note.delete()
issue.delete()
milestone.delete()
project.labels.delete("defect")
same(list(project.mergerequests.list()), [])
same(list(project.pipelines.list()), [])

# Export, download, import of the file
def finished(read):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        status = read()
        if status in ("finished", "failed"):
            return status
        time.sleep(0.05)
    raise AssertionError(f"still {status}")


project.labels.create({"name": "kept", "color": "#00ff00"})
export = project.exports.create()
same(finished(lambda: export.refresh() or export.export_status), "finished")
archive = io.BytesIO()
export.download(streamed=True, action=archive.write)
archive.seek(0)
imported = gl.projects.import_project(
    archive,
    path="wheel-again",
    namespace="python",
    overwrite=False,
    override_params={"description": "Overridden", "visibility": "private"},
)
again = gl.projects.get(imported["id"])
same(finished(lambda: gl.projects.get(again.id).imports.get().import_status), "finished")
again = gl.projects.get("python/wheel-again")
same((again.description, [each.name for each in again.labels.list()]), ("Overridden", ["kept"]))
same(again.branches.get("main").commit["id"], project.branches.get("main").commit["id"])

# Hooks
hook = group.hooks.create({"url": "https://hooks.example.com/x", "push_events": True, "token": "top-secret-token"})
hook.issues_events = True
hook.save()
same([each.issues_events for each in group.hooks.list()], [True])
hook.delete()

# Errors, as this client shows them
refused(404, "404 Project Not Found", gl.projects.get, "nobody/nothing")
refused(400, "taken", gl.groups.create, {"name": "Python", "path": "python"})
refused(403, "403 Forbidden", gl.users.create, {"username": "x", "name": "x", "email": "x@example.com", "password": "correct-horse"})
refused(401, "", gitlab.Gitlab(url, private_token="glpat-of-nobody-at-all-at-all").auth)

# GraphQL, if this version has a client for it
if hasattr(gitlab, "GraphQL"):
    answer = gitlab.GraphQL(url, token=token).execute('{ group(fullPath: "python") { fullPath } }')
    same(answer, {"group": {"fullPath": "python"}})

project.delete()
sub.delete()
group.delete()
print("ok")
