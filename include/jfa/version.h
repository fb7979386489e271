/* Which jfa this is: for C and C++, and for the build, which reads the three numbers here.
 * docs/install.md says what may change from one version to the next. */
#ifndef JFA_VERSION_H
#define JFA_VERSION_H

#define JFA_VERSION_MAJOR 0
#define JFA_VERSION_MINOR 1
#define JFA_VERSION_PATCH 0

/* To compare with: JFA_VERSION_NUMBER >= JFA_MAKE_VERSION(0, 2, 0). */
#define JFA_MAKE_VERSION(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define JFA_VERSION_NUMBER JFA_MAKE_VERSION(JFA_VERSION_MAJOR, JFA_VERSION_MINOR, JFA_VERSION_PATCH)

/* "0.1.0" */
#define JFA_QUOTE_VERSION_(major, minor, patch) #major "." #minor "." #patch
#define JFA_EXPAND_VERSION_(major, minor, patch) JFA_QUOTE_VERSION_(major, minor, patch)
#define JFA_VERSION_STRING JFA_EXPAND_VERSION_(JFA_VERSION_MAJOR, JFA_VERSION_MINOR, JFA_VERSION_PATCH)

#ifdef __cplusplus
namespace jfa {

/// "0.1.0": of the library, where JFA_VERSION_STRING is of the headers.
const char* version() noexcept;

/// The git commit that the library was built from: "4f6269a0ba1c"; with "-dirty" behind it if files had been
/// changed since; "unknown" if it was not built from a git repository of its own.
const char* commit() noexcept;

/// Both, for people: "0.1.0 (4f6269a0ba1c)".
const char* version_and_commit() noexcept;

}  // namespace jfa
#endif

#endif /* JFA_VERSION_H */
