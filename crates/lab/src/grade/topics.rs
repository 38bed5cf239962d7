//! Looks for topics in what a learner wrote, in English, Japanese and Korean. Pure.
//!
//! It finds words, not understanding: who names everything passes. The report says so.

/// A topic: it is there where each group has at least one of its words in the text.
pub struct Topic {
    /// What the learner is told is missing.
    pub name: &'static str,
    groups: &'static [&'static [&'static str]],
}

const TIMEOUT: &[&str] =
    &["timeout", "timedout", "タイムアウト", "時間切れ", "타임아웃", "시간초과"];
const KEY_UNIT: &[&str] = &[
    "businessaction",
    "perorder",
    "eachorder",
    "oneorder",
    "anorder",
    "peraction",
    "oneaction",
    "eachaction",
    "perpayment",
    "ビジネス行為",
    "業務",
    "注文ごと",
    "注文一つ",
    "注文1",
    "一つの注文",
    "1つの注文",
    "行為",
    "비즈니스행위",
    "업무",
    "주문하나",
    "주문마다",
    "주문당",
    "주문별",
    "한주문",
    "행위",
];

/// What naive.txt must speak of.
pub const NAIVE: &[Topic] = &[
    Topic {
        name: "what was counted (how many records)",
        groups: &[
            &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
            &["record", "payment", "記録", "決済", "レコード", "기록", "결제"],
        ],
    },
    Topic { name: "the timeout", groups: &[TIMEOUT] },
    Topic {
        name: "why: it was processed, only the answer was lost",
        groups: &[&[
            "answer",
            "response",
            "processed",
            "alreadyrecorded",
            "wasrecorded",
            "応答",
            "レスポンス",
            "処理",
            "記録済",
            "記録され",
            "응답",
            "처리",
            "이미기록",
            "기록됐",
            "기록되",
        ]],
    },
];

/// What newkey.txt must speak of.
pub const NEWKEY: &[Topic] = &[
    Topic {
        name: "why it is of no use (a new key looks like a new request)",
        groups: &[&[
            "newkey",
            "otherkey",
            "differentkey",
            "anotherkey",
            "everyattempt",
            "eachattempt",
            "perattempt",
            "newrequest",
            "differentrequest",
            "anotherrequest",
            "新しいキー",
            "毎回",
            "試行ごと",
            "別のキー",
            "別のリクエスト",
            "新しいリクエスト",
            "새키",
            "새로운키",
            "다른키",
            "매번",
            "시도마다",
            "새요청",
            "새로운요청",
            "다른요청",
            "별개",
        ]],
    },
    Topic { name: "the unit of a key", groups: &[KEY_UNIT] },
];

/// What forensics.txt must speak of.
pub const FORENSICS: &[Topic] = &[
    Topic { name: "ORD-2", groups: &[&["ord2"]] },
    Topic { name: "ORD-4", groups: &[&["ord4"]] },
    Topic {
        name: "the cause: a retry of the client",
        groups: &[
            &[
                "client",
                "caller",
                "クライアント",
                "呼び出し側",
                "呼び出す側",
                "클라이언트",
                "호출하는쪽",
                "호출자",
            ],
            &[
                "retr",
                "resend",
                "resent",
                "sentagain",
                "sendsagain",
                "リトライ",
                "再試行",
                "再送",
                "재시도",
                "재전송",
                "다시보",
            ],
        ],
    },
];

/// What report.md must speak of.
pub const REPORT: &[Topic] = &[
    Topic {
        name: "what a timeout means",
        groups: &[
            TIMEOUT,
            &[
                "unknown",
                "uncertain",
                "notknow",
                "cannotknow",
                "cannottell",
                "notafailure",
                "nofailure",
                "notfailed",
                "doesnotmean",
                "不確実",
                "不明",
                "分から",
                "わから",
                "分かりません",
                "知りません",
                "知らない",
                "とは限",
                "失敗ではな",
                "失敗とは",
                "불확실",
                "알수없",
                "모른",
                "모릅",
                "모르",
                "실패가아니",
                "실패를뜻하지",
                "실패라는뜻이아니",
            ],
        ],
    },
    Topic { name: "the unit of a key", groups: &[KEY_UNIT] },
    Topic {
        name: "what backoff prevents",
        groups: &[
            &["backoff", "バックオフ", "백오프"],
            &[
                "overload",
                "load",
                "recover",
                "pressure",
                "hammer",
                "flood",
                "負荷",
                "回復",
                "余裕",
                "立ち直",
                "押しつぶ",
                "부하",
                "회복",
                "여유",
                "몰아붙",
            ],
        ],
    },
    Topic {
        name: "what jitter prevents",
        groups: &[
            &["jitter", "ジッタ", "지터"],
            &[
                "sametime",
                "sameinstant",
                "samemoment",
                "simultan",
                "atonce",
                "together",
                "herd",
                "synchron",
                "lockstep",
                "instep",
                "同時",
                "一斉",
                "同じ時刻",
                "同じ瞬間",
                "そろ",
                "동시",
                "같은시각",
                "같은시간",
                "같은순간",
                "한꺼번",
                "일제히",
            ],
        ],
    },
];

/// The topics that a text does not speak of.
pub fn missing(text: &str, topics: &'static [Topic]) -> Vec<&'static str> {
    let text = squeezed(text);
    let speaks_of = |topic: &&Topic| {
        let finds = |words: &&[&str]| words.iter().any(|word| text.contains(&squeezed(word)));
        topic.groups.iter().all(finds)
    };
    topics.iter().filter(|topic| !speaks_of(topic)).map(|topic| topic.name).collect()
}

/// Lower case, full-width letters as plain ones, and without blanks, hyphens and apostrophes, so that spelling
/// habits do not matter.
fn squeezed(text: &str) -> String {
    let plain = |letter: char| match letter {
        '！'..='～' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
        other => other,
    };
    text.chars()
        .map(plain)
        .filter(|letter| !letter.is_whitespace() && !"-‐‑–—_'’*`".contains(*letter))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_habits_do_not_matter() {
        let texts = [
            "ORD-2 and ORD-4: the CLIENT re-sent them",
            "ＯＲＤ－２ ord4 クライアントの リトライ",
            "ORD-2, ORD-4: 클라이언트 재시도",
        ];
        for text in texts {
            assert!(missing(text, FORENSICS).is_empty(), "{text}: {:?}", missing(text, FORENSICS));
        }
    }

    #[test]
    fn each_topic_can_be_the_missing_one() {
        assert_eq!(missing("", NAIVE).len(), NAIVE.len());
        assert_eq!(missing("ORD-2: client retry", FORENSICS), ["ORD-4"]);
        assert_eq!(
            missing("ORD-2 ORD-4 the server", FORENSICS),
            ["the cause: a retry of the client"]
        );
        let no_jitter = "a timeout is unknown; one key per order; backoff: the server recovers";
        assert_eq!(missing(no_jitter, REPORT), ["what jitter prevents"]);
    }
}
