// Errors are values: a Status says what went wrong, a Result<T> is a T or a Status.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace jfa {

enum class ErrorKind {
  kOk,
  kInvalidArgument,  // the caller can mend it; the message names the argument and its value
  kUnsupported,      // a right request that this library or device does not serve
  kUnavailable,      // something outside is missing: NVRTC, libcuda, a device, a file, memory
  kCompile,          // NVRTC or ptxas refused a source; detail() has the log and the numbered source
  kDevice,           // the driver or a kernel failed
  kInternal,         // a defect in this library
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorKind kind, std::string message, std::string detail = {})
      : kind_(kind), message_(std::move(message)), detail_(std::move(detail)) {}

  static Status invalid_argument(std::string message) {
    return {ErrorKind::kInvalidArgument, std::move(message)};
  }
  static Status unsupported(std::string message) { return {ErrorKind::kUnsupported, std::move(message)}; }
  static Status unavailable(std::string message) { return {ErrorKind::kUnavailable, std::move(message)}; }
  static Status device(std::string message) { return {ErrorKind::kDevice, std::move(message)}; }
  static Status internal(std::string message) { return {ErrorKind::kInternal, std::move(message)}; }

  bool ok() const { return kind_ == ErrorKind::kOk; }
  ErrorKind kind() const { return kind_; }
  /// One line for a person.
  const std::string& message() const { return message_; }
  /// Many lines, often empty: a compiler's log, a simulator's report.
  const std::string& detail() const { return detail_; }
  /// For those who prefer exceptions: throws jfa::Error unless ok().
  void or_throw() const;

 private:
  ErrorKind kind_ = ErrorKind::kOk;
  std::string message_;
  std::string detail_;
};

class Error : public std::runtime_error {
 public:
  explicit Error(Status status) : std::runtime_error(status.message()), status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

inline void Status::or_throw() const {
  if (!ok()) throw Error(*this);
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  /// The value; throws jfa::Error if there is none.
  T& value() & {
    status().or_throw();
    return std::get<T>(state_);
  }
  const T& value() const& {
    status().or_throw();
    return std::get<T>(state_);
  }
  T&& value() && {
    status().or_throw();
    return std::get<T>(std::move(state_));
  }
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace jfa
