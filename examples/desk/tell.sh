# Told of each question once, as JSON on stdin: send it to whoever is on call.
cat >> told.jsonl
echo >> told.jsonl
