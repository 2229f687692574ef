"""Uses the preview of version 5 with an unmodified python-gitlab. Prints "ok" at the end."""
import sys

import gitlab

from checks import refused, same

url, token, project_id = sys.argv[1], sys.argv[2], int(sys.argv[3])
gl = gitlab.Gitlab(url, private_token=token)

# Works as before: users, groups, lists over several pages, changes by the names that stay
gl.auth()
project = gl.projects.get(project_id)
same([each.name for each in project.labels.list(iterator=True, per_page=1)], ["one", "two"])
project.topics = ["wheels"]
project.save()
same(gl.projects.get(project_id).topics, ["wheels"])
mr = project.mergerequests.list(get_all=True)[0]
same((mr.detailed_merge_status, mr.references["short"]), ("mergeable", f"!{mr.iid}"))

# Breaks: attributes are gone
for record, name in [(project, "tag_list"), (mr, "merge_status"), (mr, "merged_by"), (mr, "reference")]:
    same(hasattr(record, name), False)

# Breaks: parameters are refused, with what replaces them
project.tag_list = ["a"]
refused(400, "use `topics`", project.save)
settings = project.approvals.get()
same(hasattr(settings, "approvers"), False)
settings.approvals_before_merge = 1
refused(400, "use approval rules", settings.save)

# Breaks: `changes()` of a merge request
refused(404, "/diffs", mr.changes)

# Breaks: runners have no `active`
runner = project.runners.list(get_all=True)[0]
same((hasattr(runner, "active"), runner.paused, runner.status), (False, False, "not_connected"))
full = gl.runners.get(runner.id)
full.active = False
refused(400, "use `paused`", full.save)
full = gl.runners.get(runner.id)
full.paused = True
full.save()
same(gl.runners.get(runner.id).paused, True)

print("ok")
