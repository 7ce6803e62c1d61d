"""A DAG for Airflow 3: each hour an export to the lake, its check, and a report.

Copy it into the folder of DAGs. The workers need `pip install 'skipmq[analytics]'`, Java 17, and
the variables SKIPMQ_DATABASE_URL, SKIPMQ_ARCHIVE and REPORT_FOLDER, a folder.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "skipmq",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    # Of two exports at once one is refused.
    max_active_runs=1,
    # An export that was killed continues where it stopped.
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
) as dag:
    export = BashOperator(task_id="export", bash_command="skipmq analytics export --json")
    verify = BashOperator(task_id="verify", bash_command="skipmq analytics verify")
    report = BashOperator(
        task_id="report",
        bash_command='skipmq analytics report --lake "$SKIPMQ_ARCHIVE" --output "$REPORT_FOLDER"',
    )
    export >> verify >> report
