package crumbs

// HeaderAfter names, on a command of a traced run, the question whose answer led to
// it: its span links to the wait, which may have taken days.
const HeaderAfter = "crumb-after"
