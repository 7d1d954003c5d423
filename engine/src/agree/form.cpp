#include "sluice/agree/form.hpp"

#include "sluice/agree/bitmap_agreement.hpp"
#include "sluice/agree/first_pick_agreement.hpp"
#include "sluice/agree/leader_agreement.hpp"

namespace sluice::agree {

std::string_view name(Form form) {
  switch (form) {
    case Form::Leader:
      return "leader";
    case Form::FirstPick:
      return "first-pick";
    case Form::Bitmap:
      return "bitmap";
  }
  return {};
}

std::optional<Form> form_named(std::string_view text) {
  for (const Form form : kForms) {
    if (name(form) == text) return form;
  }
  return std::nullopt;
}

ChannelNeeds needs(Form form, const StageTasks& tasks) {
  switch (form) {
    case Form::Leader:
      return LeaderAgreement::needs(tasks);
    case Form::FirstPick:
      return FirstPickAgreement::needs();
    case Form::Bitmap:
      return BitmapAgreement::needs(tasks);
  }
  return {};
}

std::unique_ptr<Agreement> make_agreement(Form form, const StageTasks& tasks, GroupChannel& channel,
                                          const Clock& clock) {
  switch (form) {
    case Form::Leader:
      return std::make_unique<LeaderAgreement>(tasks, channel, clock);
    case Form::FirstPick:
      return std::make_unique<FirstPickAgreement>(tasks, channel, clock);
    case Form::Bitmap:
      return std::make_unique<BitmapAgreement>(tasks, channel, clock);
  }
  return nullptr;
}

}  // namespace sluice::agree
