#include "torch_cause.hpp"

#include <c10/util/Exception.h>

#include <string_view>

namespace sluice::capture {

std::string cause_of(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  const std::string text = known != nullptr ? known->what_without_backtrace() : error.what();
  // TorchScript puts the stack of its code first and the cause last.
  constexpr std::string_view kCause = "RuntimeError: ";
  const std::size_t at = text.rfind(kCause);
  const std::string cause = at == std::string::npos ? text : text.substr(at + kCause.size());
  return cause.substr(0, cause.find('\n'));
}

}  // namespace sluice::capture
