"""Writes to a repository with an unmodified python-gitlab.

Prints "ok" at the end, or fails at the first wrong answer.
"""
import base64
import sys

import gitlab

from checks import refused, same

url, token, project_id = sys.argv[1], sys.argv[2], int(sys.argv[3])
gl = gitlab.Gitlab(url, private_token=token, keep_base_url=False)
project = gl.projects.get(project_id)

# Commits with several actions
data = {
    "branch": "main",
    "commit_message": "Change two files",
    "actions": [
        {"action": "create", "file_path": "a/one.txt", "content": "one\ntwo\n"},
        {"action": "create", "file_path": "bin", "content": base64.b64encode(b"\0\1").decode(), "encoding": "base64"},
    ],
}
commit = project.commits.create(data)
same((commit.title, commit.stats["additions"]), ("Change two files", 2))
refused(400, "A file with this name already exists", project.commits.create, data)

# Files
f = project.files.create(
    {"file_path": "b/ü file.txt", "branch": "main", "content": "x", "author_name": "Ann", "author_email": "ann@example.org", "commit_message": "File"}
)
same(f.file_path, "b/ü file.txt")
f = project.files.get(file_path="b/ü file.txt", ref="main")
f.content = base64.b64encode(b"new").decode()
f.save(branch="main", commit_message="Update", encoding="base64")
same(project.files.get(file_path="b/ü file.txt", ref="main").decode(), b"new")
same(project.commits.list(get_all=False)[0].title, "Update")
f.delete(branch="main", commit_message="Delete")
refused(404, "404", project.files.get, file_path="b/ü file.txt", ref="main")

# Cherry-picks and reverts
project.branches.create({"branch": "topic", "ref": commit.id})
picked = project.commits.create(
    {"branch": "topic", "commit_message": "Topic", "actions": [{"action": "update", "file_path": "a/one.txt", "content": "one\nTWO\n"}]}
)
picked.cherry_pick(branch="main")
same(project.files.get(file_path="a/one.txt", ref="main").decode(), b"one\nTWO\n")
refused(400, "Sorry, we cannot cherry-pick", picked.cherry_pick, branch="main")
reverted = picked.revert(branch="topic")
same(reverted["message"], f'Revert "{picked.message}"\n\nThis reverts commit {picked.id}')
refused(400, "Provide at least 2 refs", project.repository_merge_base, [commit.id])
same(project.files.get(file_path="a/one.txt", ref="topic").decode(), b"one\ntwo\n")

# Tags and their protection
tag = project.tags.create({"tag_name": "v1.0", "ref": "main", "message": "First"})
same((tag.message, project.tags.get("v1.0").target), ("First", tag.target))
project.protectedtags.create({"name": "v*", "create_access_level": "40"})
same([each.name for each in project.protectedtags.list(get_all=True)], ["v*"])
refused(403, "Protected tags cannot be deleted", tag.delete)
project.protectedtags.get("v*").delete()
tag.delete()
same(project.tags.list(get_all=True), [])

print("ok")
