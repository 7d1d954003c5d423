#include "sluice/agree/messages.hpp"

#include <string>

#include "sluice/error.hpp"

namespace sluice::agree {

void MessageReader::check(std::uint32_t from, const TaskField& task) const {
  if (task.flag > 1) refuse(from, "has a field out of range");
  if (task.pass >= kPasses || !tasks_.contains(task.task()))
    refuse(from, "names a task that the stage does not have");
}

void MessageReader::check(std::uint32_t from, const AskFields& ask) const {
  if (ask.allowed > kAllPasses || ask.focusing > 1 || ask.focus.flag > 1 || ask.pick.flag > 1)
    refuse(from, "has a field out of range");
  if (ask.focus.flag != 0) check(from, ask.focus);
  if (ask.pick.flag != 0) check(from, ask.pick);
}

void MessageReader::refuse(std::uint32_t from, const char* reason) const {
  throw ProtocolError("stage " + std::to_string(tasks_.stage()) + ": what member " + std::to_string(from) +
                      " of the group sent " + reason);
}

}  // namespace sluice::agree
