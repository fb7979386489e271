# Which folder includes what: docs/design.md, section 2. Run by includes.sh over every source, under its path from the root
# of the tree. Says file and line of whatever the table below does not allow.

# may("folder", "folder or file ..."): beside itself. A folder within another has rules of its own; `cuda` stands for
# CUDA's headers, `any` for all.
function may(folder, allowed) {
  allowed_of[folder] = allowed
}

BEGIN {
  may("include/jfa", "")
  may("base", "include/jfa/status.h include/jfa/version.h")
  may("base/driver_table.h", "cuda")
  may("templates", "")
  may("generator", "base include/jfa templates")
  may("cache", "base include/jfa")
  may("tuning", "base include/jfa generator cache")
  may("runtime", "base include/jfa templates generator cache tuning simulator/driver/simulated_driver.h cuda")
  may("formats", "base")
  may("reference", "base include/jfa")
  may("conformance", "base formats runtime simulator cuda")
  may("tools", "any")
  may("machine_code", "base cuda")
  may("tools/lint", "base machine_code tools cuda")
  may("tools/jfa_sim", "base formats machine_code tools simulator cuda")
  may("cmake", "")
  may("python", "include/jfa")
  may("examples", "include/jfa cuda")
  may("bench", "any")
  may("tests", "any")

  # The simulator's rooms, each of which may know those before it.
  count = split("ptx machine decode async tensor_core instructions checkers driver campaign timing", rooms, " ")
  below = "base"
  for (i = 1; i <= count; ++i) {
    may("simulator/" rooms[i], below)
    below = below " simulator/" rooms[i]
  }
  may("simulator/async", allowed_of["simulator/async"] " cuda")  # whose tensor maps are the driver API's
  may("simulator/driver", allowed_of["simulator/driver"] " cuda")
  may("simulator/timing", allowed_of["simulator/timing"] " machine_code")  # which it plays
}

# within("a/b/c.h", "a/b")
function within(path, folder) {
  return path == folder || substr(path, 1, length(folder) + 1) == folder "/"
}

# The longest folder of the table that holds the path; empty if none does.
function folder_of(path,    folder, found) {
  for (folder in allowed_of)
    if (within(path, folder) && length(folder) > length(found)) found = folder
  return found
}

function fault(text) {
  printf "%s:%d: %s\n", FILENAME, FNR, text
  ++faults
}

function check(target,    names, n, i) {
  if (allowed == "any" || folder_of(target) == folder) return
  n = split(allowed, names, " ")
  for (i = 1; i <= n; ++i)
    if (within(target, names[i])) return
  fault(folder " may not include " target (allowed == "" ? ": it includes nothing" : "; it may include " allowed))
}

FNR == 1 {
  folder = folder_of(FILENAME)
  allowed = allowed_of[folder]
  if (folder == "") fault("no rule for this folder: tests/house/includes.awk has one for each")
}

folder != "" && /^[ \t]*#[ \t]*include[ \t]*"/ {
  split($0, quoted, "\"")
  path = quoted[2]
  ++includes
  if (path ~ /^jfa\//) check("include/" path)
  else if (path ~ /\//) check(path)  # one without a folder lies beside, or is generated
}

folder != "" && /^[ \t]*#[ \t]*include[ \t]*<(cuda|nvrtc|nvtx3)/ {
  ++includes
  check("cuda")
}

END {
  if (includes == 0) {
    print "no include was found"
    exit 1
  }
  printf "%d includes, %d of them wrong\n", includes, faults
  exit faults > 0
}
