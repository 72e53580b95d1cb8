package program

// DrainMax is how long a read waits once the program ended.
const DrainMax = drainMax
