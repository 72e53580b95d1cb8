package core_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt from what Decide says")

// transcripts replays testdata/<name>.txt of each name; replay_test.go has the
// form of a transcript.
func transcripts(t *testing.T, names ...string) {
	t.Helper()
	t.Parallel()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join("testdata", name+".txt")
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s differs; read it, then run with -update\n--- want\n%s--- got\n%s", file, want, got)
			}
		})
	}
}

// A transcript that no test names would prove nothing.
func TestTranscript_NoneIsLeftOut(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	source, err := os.ReadFile("transcript_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if !strings.Contains(string(source), strconv.Quote(name)) {
			t.Errorf("%s is read by no test", file)
		}
	}
}

func TestTranscript_CF_H15_CF_N11_F028_Publisher(t *testing.T) { transcripts(t, "publisher") }

// What starts a run, and what ends it without a model call.

func TestTranscript_RefusedRequestLeavesOneCrumb(t *testing.T) { transcripts(t, "request_refused") }
func TestTranscript_SecondRequestChangesNothing(t *testing.T)  { transcripts(t, "request_twice") }
func TestTranscript_CancelBeforeRequest(t *testing.T) {
	transcripts(t, "cancel_before_request", "cancel_before_refused_request")
}

// The loop of model and tools.

func TestTranscript_CF_O16_StepsMax(t *testing.T)       { transcripts(t, "steps_max") }
func TestTranscript_CF_O01_TextEndsTheRun(t *testing.T) { transcripts(t, "text_answer") }
func TestTranscript_EmptyAnswer(t *testing.T)           { transcripts(t, "empty_answer") }
func TestTranscript_FinishReasons(t *testing.T) {
	transcripts(t, "finish_length", "finish_promises_calls")
}
func TestTranscript_F024_ParallelCalls(t *testing.T) { transcripts(t, "parallel_calls") }
func TestTranscript_ReportedOutcomes(t *testing.T)   { transcripts(t, "reported_outcomes") }
func TestTranscript_ResultsThatSettleNothing(t *testing.T) {
	transcripts(t, "foreign_results", "late_results")
}

// Calls that are never sent.

func TestTranscript_F082_CF_P23_BlockedUnknown(t *testing.T)  { transcripts(t, "blocked_unknown") }
func TestTranscript_F050_NoArguments(t *testing.T)            { transcripts(t, "blocked_no_arguments") }
func TestTranscript_F051_F034_NoJSON(t *testing.T)            { transcripts(t, "blocked_no_json") }
func TestTranscript_F052_WrongArguments(t *testing.T)         { transcripts(t, "blocked_wrong_arguments") }
func TestTranscript_BlockedOverTheLimit(t *testing.T)         { transcripts(t, "blocked_limit") }
func TestTranscript_BlockedAllGoesToTheNextStep(t *testing.T) { transcripts(t, "blocked_all") }
func TestTranscript_BlockedBesideOthers(t *testing.T)         { transcripts(t, "blocked_beside_others") }
func TestTranscript_MoreCallsThanAreAnsweredAtAll(t *testing.T) {
	transcripts(t, "calls_beyond_measure")
}

// People.

func TestTranscript_CF_H01_CF_H02_HumanTool(t *testing.T)            { transcripts(t, "human_tool") }
func TestTranscript_CF_H06_CF_H07_CF_H11_F029_Approval(t *testing.T) { transcripts(t, "approval") }
func TestTranscript_CF_H08_F021_F032_Rejection(t *testing.T) {
	transcripts(t, "rejection", "rejected_then_model_fails")
}
func TestTranscript_CF_H14_ApprovedToolFails(t *testing.T)     { transcripts(t, "approved_tool_fails") }
func TestTranscript_CF_H16_FreeAndGated(t *testing.T)          { transcripts(t, "free_and_gated") }
func TestTranscript_CF_H18_GatedAndHuman(t *testing.T)         { transcripts(t, "gated_and_human") }
func TestTranscript_F023_SeveralQuestionsAtOnce(t *testing.T)  { transcripts(t, "three_questions") }
func TestTranscript_F028_FalsyAnswers(t *testing.T)            { transcripts(t, "falsy_answers") }
func TestTranscript_F030_WrongKindOfAnswer(t *testing.T)       { transcripts(t, "wrong_kind") }
func TestTranscript_EditedArguments(t *testing.T)              { transcripts(t, "edited_arguments") }
func TestTranscript_ExpiryIsNoRejection(t *testing.T)          { transcripts(t, "expiry") }
func TestTranscript_CF_H04_SecondAnswer(t *testing.T)          { transcripts(t, "second_answer") }
func TestTranscript_F025_AnswerToAnotherQuestion(t *testing.T) { transcripts(t, "other_question") }
func TestTranscript_ApproveAfterCancel(t *testing.T)           { transcripts(t, "approve_after_cancel") }

// Cancel.

func TestTranscript_CancelWhileTheModelRuns(t *testing.T)    { transcripts(t, "cancel_model") }
func TestTranscript_CF_R11_CancelDuringBackoff(t *testing.T) { transcripts(t, "cancel_backoff") }
func TestTranscript_CancelOfCallsThatNeverStarted(t *testing.T) {
	transcripts(t, "cancel_never_started")
}
func TestTranscript_CancelOfCallsThatHadStarted(t *testing.T) {
	transcripts(t, "cancel_result_in_grace", "cancel_grace_passed", "cancel_during_grace")
}
func TestTranscript_CancelWithdrawsQuestions(t *testing.T) { transcripts(t, "cancel_questions") }
func TestTranscript_CF_O14_CancelAfterTheEnd(t *testing.T) { transcripts(t, "cancel_after_end") }
func TestTranscript_CancelStoredBeforeRequest(t *testing.T) {
	transcripts(t, "cancel_stored_before_request")
}

// Deadlines and timers.

func TestTranscript_RunDeadline(t *testing.T) {
	transcripts(t, "run_deadline", "run_deadline_started", "run_deadline_behind")
}
func TestTranscript_ModelDeadline(t *testing.T) { transcripts(t, "model_deadline") }
func TestTranscript_ToolDeadline(t *testing.T) {
	transcripts(t, "tool_deadline_never_started", "tool_deadline_started")
}
func TestTranscript_AfterAnOutage(t *testing.T) {
	transcripts(t, "after_an_outage", "timer_after_an_outage")
}
func TestTranscript_StaleTimers(t *testing.T) { transcripts(t, "stale_timers") }

// Orders about attempts in flight.

func TestTranscript_F137_CallNobodyTakes(t *testing.T) {
	transcripts(t, "order_lost", "order_lost_started", "order_lost_model")
}
func TestTranscript_Redrive(t *testing.T) {
	transcripts(t, "order_redrive", "order_redrive_started", "order_redrive_model")
}
func TestTranscript_AnsweredByAnOperator(t *testing.T) {
	transcripts(t, "order_answer", "order_answer_error", "order_answer_stopping")
}
func TestTranscript_OrdersThatChangeNothing(t *testing.T) { transcripts(t, "order_stale") }

// Failed model attempts.

func TestTranscript_CF_R08_ModelRetry(t *testing.T)   { transcripts(t, "model_retry") }
func TestTranscript_ModelRetryAfter(t *testing.T)     { transcripts(t, "model_retry_after") }
func TestTranscript_ModelRetriesUsedUp(t *testing.T)  { transcripts(t, "model_retries_used_up") }
func TestTranscript_CF_R04_NoRetry(t *testing.T)      { transcripts(t, "model_no_retry") }
func TestTranscript_CF_R05_OneAttempt(t *testing.T)   { transcripts(t, "model_one_attempt") }
func TestTranscript_ModelAnswersNothing(t *testing.T) { transcripts(t, "model_no_message") }

// Faults of the mesh, and sizes.

func TestTranscript_FailedEvent(t *testing.T) {
	transcripts(t, "failed_event", "failed_event_started", "failed_timer", "failed_twice")
}
func TestTranscript_StateTooLarge(t *testing.T) {
	transcripts(t, "state_too_large", "large_error", "cancel_reason_long")
}
func TestTranscript_LargeValues(t *testing.T)     { transcripts(t, "large_values") }
func TestTranscript_LargeTurn(t *testing.T)       { transcripts(t, "large_turn") }
func TestTranscript_LargeTranscript(t *testing.T) { transcripts(t, "large_transcript") }
func TestTranscript_LongRun(t *testing.T)         { transcripts(t, "long_run") }
func TestTranscript_SuspendedRecordIsSmall(t *testing.T) {
	transcripts(t, "suspended_record", "suspended_beside_results")
}

// Hooks of the run.

func TestTranscript_BeforeRun_CF_K01_CF_K02(t *testing.T) {
	transcripts(t, "hooks_run_before", "hooks_run_input_schema")
}
func TestTranscript_ShortCircuit_CF_K04_CF_K05(t *testing.T) {
	transcripts(t, "hooks_run_short_circuit")
}
func TestTranscript_AfterRun_CF_K06_CF_K07(t *testing.T) { transcripts(t, "hooks_run_after") }
func TestTranscript_AfterRunOnce_CF_K10(t *testing.T)    { transcripts(t, "hooks_after_suspension") }
func TestTranscript_OnError_CF_K11_CF_K12_CF_R06(t *testing.T) {
	transcripts(t, "hooks_run_error", "hooks_run_error_fail")
}
func TestTranscript_OnErrorAndRetry_CF_R01_CF_R02(t *testing.T) {
	transcripts(t, "hooks_run_error_retries", "hooks_run_error_once_more")
}
func TestTranscript_UnknownProvider_CF_K14(t *testing.T) { transcripts(t, "hooks_unserved") }
func TestTranscript_FailingHooks_CF_K15_CF_K17_F089_F090_F094(t *testing.T) {
	transcripts(t, "hooks_run_error_throws", "hooks_run_before_throws", "hooks_run_after_throws", "hooks_run_nonsense", "hooks_run_lost")
}
func TestTranscript_OnSuspend_CF_K18_CF_K19_F092(t *testing.T) {
	transcripts(t, "hooks_suspend", "hooks_suspend_late")
}
func TestTranscript_CancelDuringHooks_CF_O10(t *testing.T) {
	transcripts(t, "hooks_run_cancel", "hooks_tool_stop")
}

// Hooks and retries of tools.

func TestTranscript_ToolHooks_CF_K20_CF_K22(t *testing.T) { transcripts(t, "hooks_tool") }
func TestTranscript_ToolShortCircuit_CF_S06(t *testing.T) {
	transcripts(t, "hooks_tool_short_circuit")
}
func TestTranscript_StreamAndAfterRun_CF_S07(t *testing.T) { transcripts(t, "hooks_tool_stream") }
func TestTranscript_ToolOnError_CF_K23(t *testing.T) {
	transcripts(t, "hooks_tool_error", "hooks_tool_error_fail")
}
func TestTranscript_FailingToolHooks_F033_F090(t *testing.T) {
	transcripts(t, "hooks_tool_guard", "hooks_tool_after_throws")
}
func TestTranscript_HooksAndApproval(t *testing.T) {
	transcripts(t, "hooks_approval", "hooks_approval_first", "hooks_approval_edited")
}
func TestTranscript_ToolRetry_CF_R01_CF_R04_CF_R08(t *testing.T) {
	transcripts(t, "tool_retry", "tool_retry_hooks", "tool_retry_succeeds", "tool_retry_hook")
}
func TestTranscript_StreamingToolIsNotRepeated_CF_S05(t *testing.T) {
	transcripts(t, "tool_retry_stream")
}
func TestTranscript_CF_R10_ToolRunsOnce(t *testing.T)          { transcripts(t, "model_retry_after_tool") }
func TestTranscript_CF_R11_CancelBetweenAttempts(t *testing.T) { transcripts(t, "tool_retry_cancel") }
func TestTranscript_ToolOutputSchema(t *testing.T)             { transcripts(t, "tool_output_schema") }
func TestTranscript_OrdersAboutHooks(t *testing.T)             { transcripts(t, "order_errand") }

// Outputs.

func TestTranscript_JSONOutput_CF_O03_CF_O04(t *testing.T) {
	transcripts(t, "output_json", "output_json_unfit", "output_json_repair", "output_json_hook", "output_text_schema")
}
func TestTranscript_CustomOutput_CF_O05(t *testing.T) {
	transcripts(t, "output_custom", "output_custom_fails", "output_custom_steps")
}
func TestTranscript_FilesAndPrefixes(t *testing.T) { transcripts(t, "model_files") }
