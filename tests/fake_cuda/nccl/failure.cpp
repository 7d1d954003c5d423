#include "failure.hpp"

#include "report.hpp"

namespace fakenccl {
namespace {

std::string& message_of_thread() {
  thread_local std::string text;
  return text;
}

}  // namespace

ncclResult_t fail(ncclResult_t code, const std::string& message) {
  message_of_thread() = message;
  return code;
}

ncclResult_t misuse(ncclResult_t code, const std::string& message) {
  fakecuda::report(message);
  return fail(code, message);
}

const char* last_message() { return message_of_thread().c_str(); }

}  // namespace fakenccl
