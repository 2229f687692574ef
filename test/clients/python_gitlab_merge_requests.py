"""Opens, reviews and merges merge requests with an unmodified python-gitlab.

Prints "ok" at the end, or fails at the first wrong answer.
"""
import sys
import time

import gitlab

from checks import refused, same

url, token, reviewer_token, project_id = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
gl = gitlab.Gitlab(url, private_token=token, keep_base_url=False)
gl.auth()
other = gitlab.Gitlab(url, private_token=reviewer_token, keep_base_url=False)
other.auth()
project = gl.projects.get(project_id)


def commit(branch, path, **more):
    actions = [{"action": "create", "file_path": path, "content": "one\ntwo\n"}]
    return project.commits.create({"branch": branch, "commit_message": f"Add {path}", "actions": actions, **more})


def soon(read, is_so):
    """Polls until the answer is as expected, and returns it. What follows in jobs takes a moment."""
    for _ in range(300):
        answer = read()
        if is_so(answer):
            return answer
        time.sleep(0.1)
    raise AssertionError(f"{answer!r} does not change")


def settled(mr):
    """Polls as tools do until the merge status is known."""
    unknown = ("preparing", "checking", "unchecked")
    return soon(lambda: project.mergerequests.get(mr.iid), lambda now: now.detailed_merge_status not in unknown)


head = commit("topic", "a.txt", start_branch="main")
data = {
    "source_branch": "topic",
    "target_branch": "main",
    "title": "Add a file",
    "labels": ["bug", "new"],
    "assignee_ids": [gl.user.id],
    "reviewer_ids": [other.user.id],
    "description": "Why",
}
mr = project.mergerequests.create(data)
same((mr.iid, mr.state, mr.labels), (1, "opened", ["bug", "new"]))
refused(409, "Another open merge request already exists", project.mergerequests.create, data)
mr = settled(mr)
same((mr.detailed_merge_status, mr.sha, mr.changes_count), ("mergeable", head.id, "1"))
same([each.iid for each in project.mergerequests.list(state="opened", get_all=False)], [1])
same([each.iid for each in gl.mergerequests.list(scope="assigned_to_me", get_all=False)], [1])
mr.title = "Draft: Add a file"
mr.labels = ["one"]
mr.save()
same((mr.draft, mr.labels), (True, ["one"]))
refused(405, "405 Method Not Allowed", mr.merge)
mr.title = "Add a file"
mr.save()

# Diffs and versions
same([each.id for each in mr.commits()], [head.id])
same([each["new_path"] for each in mr.changes()["changes"]], ["a.txt"])
versions = mr.diffs.list(get_all=False)
same([each.head_commit_sha for each in versions], [head.id])
same([each["new_path"] for each in mr.diffs.get(versions[0].id).diffs], ["a.txt"])
same(list(mr.pipelines.list(get_all=False)), [])

# Notes
note = mr.notes.create({"body": "Looks good"})
note.body = "Looks great"
note.save()
same([each.body for each in mr.notes.list(get_all=True) if not each.system], ["Looks great"])
mr.awardemojis.create({"name": "rocket"})
note.delete()

# Threads with positions
position = {**mr.diff_refs, "position_type": "text", "old_path": "a.txt", "new_path": "a.txt", "new_line": 2}
thread = mr.discussions.create({"body": "Why two?", "position": position})
same(thread.attributes["notes"][0]["position"]["new_line"], 2)
thread.notes.create({"body": "Because"})
thread.resolved = True
thread.save()
thread = mr.discussions.get(thread.id)
same([each["body"] for each in thread.attributes["notes"]], ["Why two?", "Because"])
same(thread.attributes["notes"][0]["resolved"], True)
wrong = {**position, "new_line": 99}
refused(400, "line_code", mr.discussions.create, {"body": "Nowhere", "position": wrong})

# Drafts and reviewers, over the calls that this version of the client has no objects for
at = f"/projects/{project_id}/merge_requests/{mr.iid}"
draft = gl.http_post(f"{at}/draft_notes", post_data={"note": "Later"})
gl.http_put(f"{at}/draft_notes/{draft['id']}", post_data={"note": "Soon"})
same([each["note"] for each in gl.http_list(f"{at}/draft_notes", get_all=True)], ["Soon"])
same(other.http_list(f"{at}/draft_notes", get_all=True), [])
gl.http_request("put", f"{at}/draft_notes/{draft['id']}/publish")
other.http_post(f"{at}/draft_notes", post_data={"note": "Done"})
other.http_post(f"{at}/draft_notes/bulk_publish")
same([each.body for each in mr.notes.list(get_all=True, sort="asc") if not each.system][-2:], ["Soon", "Done"])
same([each["state"] for each in gl.http_list(f"{at}/reviewers", get_all=True)], ["reviewed"])

# Approval rules
config = project.approvals.get()
config.merge_requests_author_approval = True
config.save()
same(project.approvals.get().merge_requests_author_approval, True)
rule = project.approvalrules.create({"name": "Security", "approvals_required": 1, "user_ids": [other.user.id]})
rule.approvals_required = 2
rule.name = "Safety"
rule.save()
same([(each.name, each.approvals_required) for each in project.approvalrules.list(get_all=False)], [("Safety", 2)])
own = mr.approvals.set_approvers(1, approver_ids=[other.user.id], approval_rule_name="Own")
# Saving such a rule again is left out: this client sends it to the id of the project.
same([(each.name, each.approvals_required) for each in mr.approval_rules.list(get_all=False)], [("Own", 1)])
same(mr.approval_rules.get(own.id).name, "Own")
same(mr.approval_state.get().rules[0]["name"], "Own")
mr.approval_rules.delete(own.id)
rule.delete()
same(project.approvalrules.list(get_all=False), [])
approvals = mr.approvals.get()
approvals.approvals_required = 1
approvals.save()
same(mr.approvals.get().approvals_required, 1)
approvals.approvals_required = 0
approvals.save()

# Approvals
theirs = other.projects.get(project_id).mergerequests.get(mr.iid)
theirs.approve(sha=head.id)
same([each["user"]["id"] for each in mr.approvals.get().approved_by], [other.user.id])
refused(304, "", theirs.approve)
theirs.unapprove()
same(mr.approvals.get().approved_by, [])

# Time, people and subscriptions
mr.time_estimate("1d 2h")
mr.add_spent_time("30m")
stats = project.mergerequests.get(mr.iid).time_stats()
same((stats["time_estimate"], stats["human_total_time_spent"]), (36000, "30m"))
mr.reset_spent_time()
mr.reset_time_estimate()
same(sorted(each["id"] for each in mr.participants()), sorted([gl.user.id, other.user.id]))
mr.unsubscribe()
mr.subscribe()
same(mr.subscribed, True)
mr = settled(mr)

# Events and issues
mr.labels = ["two"]
mr.save()
added = next(each for each in mr.resourcelabelevents.list(get_all=False) if each.label["name"] == "two")
same((added.action, mr.resourcelabelevents.get(added.id).id), ("add", added.id))
milestone = project.milestones.create({"title": "v1"})
mr.milestone_id = milestone.id
mr.save()
planned = mr.resourcemilestoneevents.list(get_all=False)[0]
same(mr.resourcemilestoneevents.get(planned.id).action, "add")
same([each.iid for each in milestone.merge_requests()], [mr.iid])
issue = project.issues.create({"title": "Missing file"})
mr.description = f"Closes #{issue.iid}"
mr.save()
same([each.iid for each in mr.closes_issues()], [issue.iid])
soon(issue.closed_by, lambda found: [each["iid"] for each in found] == [mr.iid])
same([each["iid"] for each in issue.related_merge_requests()], [mr.iid])
refused(401, "", mr.reset_approvals)

# Rebasing
project.merge_method = "rebase_merge"
project.save()
commit("main", "b.txt")
same(mr.rebase()["rebase_in_progress"], True)
soon(
    lambda: project.mergerequests.get(mr.iid, include_rebase_in_progress=True),
    lambda current: not current.rebase_in_progress,
)
mr = settled(mr)
same((mr.merge_error, mr.detailed_merge_status), (None, "mergeable"))
trial = mr.merge_ref()["commit_id"]
same(project.commits.get(trial).parent_ids[1], mr.sha)

# Waiting for a pipeline
commits = project.commits.get(mr.sha)
commits.statuses.create({"state": "running", "ref": "topic"})
mr.merge(merge_when_pipeline_succeeds=True)
same((mr.state, mr.merge_when_pipeline_succeeds), ("opened", True))
mr.cancel_merge_when_pipeline_succeeds()
mr = project.mergerequests.get(mr.iid)
same(mr.merge_when_pipeline_succeeds, False)
same([each["ref"] for each in (pipeline.asdict() for pipeline in mr.pipelines.list(get_all=False))], ["topic"])

# Closing and merging
mr.state_event = "close"
mr.save()
same(mr.state, "closed")
mr.state_event = "reopen"
mr.save()
mr = settled(mr)
mr.merge(should_remove_source_branch=True, merge_commit_message="Merged by a tool")
same((mr.state, project.commits.get(mr.merge_commit_sha).message), ("merged", "Merged by a tool"))
same([each.state for each in mr.resourcestateevents.list(get_all=True)], ["closed", "reopened", "merged"])
merged = project.commits.get(mr.merge_commit_sha)
same([each["iid"] for each in merged.merge_requests()], [mr.iid])
project.branches.create({"branch": "stable", "ref": merged.parent_ids[0]})
merged.cherry_pick("stable")
picked = project.branches.get("stable").commit["id"]
project.commits.get(picked).revert("stable")
same(project.commits.list(ref_name="stable", get_all=False)[0].title, 'Revert "Merged by a tool"')
mr.delete()
refused(404, "404", project.mergerequests.get, 1)

print("ok")
