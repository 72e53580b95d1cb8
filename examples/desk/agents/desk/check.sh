# A beforeRun hook: {"scope":"agent","input":{"order":"A1"},…} on stdin, an answer on stdout, nothing for no opinion.
case $(cat) in
  *closed*) echo '{"action":"shortCircuit","output":"The desk is closed."}' ;;
  *stolen*) echo 'this order was stolen' >&2; exit 1 ;;
esac
