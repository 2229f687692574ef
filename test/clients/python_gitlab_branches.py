"""Manages branches with an unmodified python-gitlab. Prints "ok" at the end, or fails at the first wrong answer."""
import sys

import gitlab

from checks import refused, same

url, token, developer_token, admin_token, path, developer_id = sys.argv[1:7]
gl = gitlab.Gitlab(url, private_token=token, keep_base_url=False)
project = gl.projects.get(path)
as_developer = gitlab.Gitlab(url, private_token=developer_token).projects.get(path)


def names(items):
    return [each.name for each in items]

# Branches
for name in ("feature/one", "feature/two", "kept/1"):
    same(project.branches.create({"branch": name, "ref": "main"}).name, name)
branch = project.branches.get("feature/one")
same((branch.protected, branch.default, branch.merged, branch.can_push), (False, False, False, True))
same(sorted(branch.commit)[:3], ["author_email", "author_name", "authored_date"])
same(names(project.branches.list(search="^feature")), ["feature/one", "feature/two"])
same(names(project.branches.list(regex="1$")), ["kept/1"])
everything = ["feature/one", "feature/two", "kept/1", "main"]
same(names(project.branches.list(per_page=1, iterator=True)), everything)
same(names(project.branches.list(per_page=1, iterator=True, pagination="keyset")), everything)
same(project.branches.list(per_page=2, iterator=True).total, 4)
refused(400, "Invalid reference name: nowhere", project.branches.create, {"branch": "x", "ref": "nowhere"})
refused(400, "Branch already exists", project.branches.create, {"branch": "main", "ref": "main"})
refused(400, "default branch", project.branches.delete, "main")
refused(404, "Branch Not Found", project.branches.get, "none")
refused(400, "regex", project.branches.list, regex="(?=x)")
branch.delete()

# Tools create a project and its branches without a push
fresh = gl.projects.create({"name": "Fresh"})
same(fresh.branches.create({"branch": "my.branch", "ref": "main"}).name, "my.branch")
same(names(fresh.branches.list()), ["main", "my.branch"])
same(fresh.files.get("README.md", ref="my.branch").decode(), b"")
fresh.delete()

# Protection
rule = project.protectedbranches.create(
    {"name": "kept/*", "push_access_level": 0, "allowed_to_merge": [{"user_id": int(developer_id)}]}
)
same([each["access_level_description"] for each in rule.push_access_levels], ["No one"])
same([each["user_id"] for each in rule.merge_access_levels], [int(developer_id)])
same(names(project.protectedbranches.list()), ["kept/*", "main"])
same(names(as_developer.protectedbranches.list()), ["kept/*", "main"])
same(project.protectedbranches.get("kept/*").allow_force_push, False)
refused(409, "already exists", project.protectedbranches.create, {"name": "kept/*"})
refused(400, "Protected branch cannot be removed", project.branches.delete, "kept/1")
refused(403, "", as_developer.protectedbranches.delete, "kept/*")
refused(403, "not allowed to create protected branches", as_developer.branches.create, {"branch": "kept/2", "ref": "main"})
same(as_developer.branches.get("kept/1").can_push, False)

# Commit statuses
commit = as_developer.commits.get(branch.commit["id"])
status = commit.statuses.create({"state": "pending", "name": "ci/build", "target_url": "https://ci.example.com/1"})
same((status.status, status.ref, status.author["id"]), ("pending", "main", int(developer_id)))
commit.statuses.create({"state": "success", "name": "ci/build", "coverage": 90.5})
same([(each.name, each.status, each.coverage) for each in commit.statuses.list()], [("ci/build", "success", 90.5)])
refused(400, "state", commit.statuses.create, {"state": "odd"})

# Dates sent as timestamps
milestone = project.milestones.create({"title": "First"})
milestone.due_date = "2030-01-01T00:00:00Z"
milestone.save()
same(project.milestones.get(milestone.id).due_date, "2030-01-01")

# Aliases. This client has no objects for them
admin = gitlab.Gitlab(url, private_token=admin_token)
made = admin.http_post("/project_aliases", post_data={"name": "py", "project_id": path})
same((made["name"], made["project_id"]), ("py", project.id))
same([each["name"] for each in admin.http_list("/project_aliases")], ["py"])
refused(403, "403 Forbidden", gl.http_list, "/project_aliases")
admin.http_delete("/project_aliases/py")

project.files.create({"file_path": "on", "branch": "main", "content": "x", "commit_message": "Move on"})
same(project.branches.get("feature/two").merged, True)
project.delete_merged_branches()
print("ok")
