"""Reads a repository with an unmodified python-gitlab. Prints "ok" at the end, or fails at the first wrong answer."""
import base64
import io
import sys
import zipfile

import gitlab

from checks import refused, same

url, token, path = sys.argv[1], sys.argv[2], sys.argv[3]
gl = gitlab.Gitlab(url, private_token=token, keep_base_url=False)
project = gl.projects.get(path)

# Trees, by page number and by keyset
entries = project.repository_tree(recursive=True, get_all=True)
same([each["path"] for each in entries], ["docs", "README.md", "docs/a.txt", "docs/b c.txt"])
keyed = project.repository_tree(recursive=True, pagination="keyset", per_page=1, iterator=True)
same([each["path"] for each in keyed], [each["path"] for each in entries])
refused(404, "Not Found", project.repository_tree, path="absent")

# Files
file = project.files.get(file_path="docs/a.txt", ref="main")
same(file.decode(), b"one\ntwo\n")
same(project.files.raw(file_path="docs/b c.txt", ref="main"), b"three\n")
same(gl.http_head(f"/projects/{project.id}/repository/files/docs%2Fa.txt", ref="main")["X-Gitlab-Size"], "8")
same([each["lines"] for each in project.files.blame(file_path="docs/a.txt", ref="main")], [["one"], ["two"]])
refused(404, "404 File Not Found", project.files.get, file_path="absent", ref="main")
blob = project.repository_blob(file.blob_id)
same(base64.b64decode(blob["content"]), b"one\ntwo\n")
same(project.repository_raw_blob(file.blob_id), b"one\ntwo\n")

# Commits
commits = project.commits.list(get_all=True, with_stats=True)
same([each.title for each in commits], ["Second", "First"])
same(commits[0].stats, {"additions": 1, "deletions": 0, "total": 1})
same([each.title for each in project.commits.list(query_parameters={"path": "docs/b c.txt"}, get_all=True)], ["First"])
head = project.commits.get("main")
same(head.id, commits[0].id)
same([each["new_path"] for each in head.diff(get_all=True)], ["docs/a.txt"])
same([each["name"] for each in head.refs("branch", get_all=True)], ["main"])
same(gl.http_get(f"/projects/{project.id}/repository/commits/{head.id}/sequence"), {"count": 2})
same(head.merge_requests(), [])
refused(404, "Signature", head.signature)

head.comments.create({"note": "Nice"})
head.comments.create({"note": "Here", "path": "docs/a.txt", "line": 2, "line_type": "new"})
same([(each.note, each.line) for each in head.comments.list(get_all=True)], [("Nice", None), ("Here", 2)])
begun = head.discussions.create({"body": "Why?"})
begun.notes.create({"body": "Becuase."})
note = head.discussions.get(begun.id).notes.get(head.discussions.get(begun.id).attributes["notes"][1]["id"])
note.body = "Because."
note.save()
same([(each["body"], each["noteable_type"]) for each in head.discussions.get(begun.id).attributes["notes"]],
     [("Why?", "Commit"), ("Because.", "Commit")])
note.delete()
same([len(each.attributes["notes"]) for each in head.discussions.list(get_all=True)], [1, 1, 1])
same(project.commits.get("main~1").id, commits[1].id)

# Comparisons, contributors, archives
compared = project.repository_compare(commits[1].id, "main")
same([each["title"] for each in compared["commits"]], ["Second"])
same(compared["diffs"][0]["diff"], "@@ -1 +1,2 @@\n one\n+two\n")
same(project.repository_merge_base([commits[1].id, "main"])["id"], commits[1].id)
same([each["commits"] for each in project.repository_contributors(get_all=True)], [2])
archive = zipfile.ZipFile(io.BytesIO(project.repository_archive(format="zip", sha="main")))
same(sorted(name.split("/", 1)[1] for name in archive.namelist() if not name.endswith("/")),
     ["README.md", "docs/a.txt", "docs/b c.txt"])
print("ok")
