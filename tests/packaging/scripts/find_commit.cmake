# base/find_commit.cmake, in repositories of its own.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/repository/vendored)
set(header ${FOLDER}/jfa_commit.h)

function(git)
  execute_process(COMMAND ${GIT} -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false ${ARGN}
                  WORKING_DIRECTORY ${FOLDER}/repository OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  set(text "${text}" PARENT_SCOPE)
endfunction()

# expect(folder commit [argument...]): what is written for a source folder.
function(expect folder commit)
  execute_process(COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${folder} -D OUTPUT=${header} ${ARGN} -P ${SCRIPT}
                  COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${header} text)
  if(NOT text STREQUAL "#define JFA_COMMIT \"${commit}\"\n")
    message(FATAL_ERROR "${folder}: expected ${commit}, got ${text}")
  endif()
endfunction()

git(init --quiet)
file(WRITE ${FOLDER}/repository/file.txt one)
git(add file.txt)
git(commit --quiet --message one)
git(tag v9.9.9)  # a commit is named by its hash all the same
git(rev-parse --short=12 HEAD)
set(commit ${text})
expect(${FOLDER}/repository ${commit} -D GIT=${GIT})
file(TIMESTAMP ${header} before "%s")
execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 1.1)
expect(${FOLDER}/repository ${commit} -D GIT=${GIT})
file(TIMESTAMP ${header} after "%s")
if(NOT before STREQUAL after)
  message(FATAL_ERROR "an unchanged header was written again: everything that includes it would be compiled")
endif()
file(WRITE ${FOLDER}/repository/untracked.txt one)
expect(${FOLDER}/repository ${commit} -D GIT=${GIT})
file(WRITE ${FOLDER}/repository/file.txt two)
expect(${FOLDER}/repository ${commit}-dirty -D GIT=${GIT})
expect(${FOLDER}/repository unknown)
expect(${FOLDER}/repository/vendored unknown -D GIT=${GIT})  # somebody else's commit is not ours
